/*
 * locks.c: nobody locks what everybody needs by naming it.
 *
 * Some utility statements lock a relation so that nobody can read or write it,
 * or nobody can write it, and ask only then whether their role may. Who waits
 * for such a lock holds up whoever comes later, and who holds it can go on to
 * wait for a table of his own. So where such a statement names a relation of the
 * extension's or of PostgreSQL's own that is not the role's, it is refused
 * before anything is locked.
 */
#include "privid.h"

#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

/* Refuse to go on if a name is that of a relation of a schema, and that is not the role's. */
static void
CheckIn(const char *schema, const char *name)
{
	Oid			namespace = get_namespace_oid(schema, true);
	Oid			relation = OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;

	if (OidIsValid(relation) && !pg_class_ownercheck(relation, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relation)), name);
}

/*
 * The same for what a statement names, in the schemas that all need. A name alone may come to mean something else while
 * PostgreSQL waits for its lock, so it is refused if it could mean what is in these, whatever it means now.
 */
static void
CheckRelation(RangeVar *named)
{
	static const char *const schemas[] = {"privid", "pg_catalog", "pg_toast", "information_schema"};

	for (int i = 0; i < lengthof(schemas); i++)
		if (named->schemaname == NULL || strcmp(named->schemaname, schemas[i]) == 0)
			CheckIn(schemas[i], named->relname);
}

/* The same for all that a statement names where PostgreSQL locks first. */
static void
CheckNamed(Node *node)
{
	ListCell   *lc;

	if (node == NULL)
		return;
	switch (nodeTag(node))
	{
		case T_RangeVar:
			CheckRelation((RangeVar *) node);
			break;
		case T_List:
			foreach(lc, (List *) node)
				CheckNamed(lfirst(lc));
			break;
		case T_RuleStmt:
			CheckNamed((Node *) ((RuleStmt *) node)->relation);
			break;
		case T_AlterObjectDependsStmt:
			CheckNamed((Node *) ((AlterObjectDependsStmt *) node)->relation);
			break;
		case T_CreateTrigStmt:
			CheckNamed((Node *) ((CreateTrigStmt *) node)->relation);
			CheckNamed((Node *) ((CreateTrigStmt *) node)->constrrel);
			break;
		case T_CreateStmt:
		case T_CreateForeignTableStmt:
			CheckNamed((Node *) ((CreateStmt *) node)->inhRelations);
			CheckNamed((Node *) ((CreateStmt *) node)->tableElts);
			break;
		case T_AlterTableStmt:
			CheckNamed((Node *) ((AlterTableStmt *) node)->cmds);
			break;
		case T_AlterTableCmd:
			CheckNamed(((AlterTableCmd *) node)->def);
			break;
		case T_PartitionCmd:
			CheckNamed((Node *) ((PartitionCmd *) node)->name);
			break;
		case T_ColumnDef:
			CheckNamed((Node *) ((ColumnDef *) node)->constraints);
			break;
		case T_Constraint:
			CheckNamed((Node *) ((Constraint *) node)->pktable);
			break;
		default:
			break;
	}
}

/* Every utility statement passes here, also one that ends a failed transaction, in which no catalog can be read. */
void
CheckLocks(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_RuleStmt:
		case T_AlterObjectDependsStmt:
		case T_CreateTrigStmt:
		case T_CreateStmt:
		case T_CreateForeignTableStmt:
		case T_AlterTableStmt:
			if (!superuser())
				CheckNamed(statement);
			break;
		default:
			break;
	}
}
