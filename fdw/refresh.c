/*
 * refresh.c: REFRESH MATERIALIZED VIEW defines nothing of ours.
 *
 * PostgreSQL collects no commands for event triggers while it refreshes one,
 * so that those that look at new cameras and tables (whose folder a source
 * lies in, how many tables a role has) would not hear of what a function of
 * the view's creates. Such statements are refused in there.
 */
#include "privid.h"

#include "catalog/namespace.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"

static bool
IsOurServer(const char *name)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	return server != NULL && IsPrividServer(server);
}

static bool
IsOurRelation(RangeVar *named)
{
	Oid			relation = named == NULL ? InvalidOid : RangeVarGetRelid(named, NoLock, true);

	return OidIsValid(relation) && (IsPrividTable(relation) || has_subclass(relation));
}

/* Does a statement make, alter or give away a camera or a table of one? */
static bool
IsDefinition(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_CreateForeignServerStmt:
			return strcmp(((CreateForeignServerStmt *) statement)->fdwname, "privid") == 0;
		case T_AlterForeignServerStmt:
			return IsOurServer(((AlterForeignServerStmt *) statement)->servername);
		case T_CreateForeignTableStmt:
			return IsOurServer(((CreateForeignTableStmt *) statement)->servername);
		case T_AlterTableStmt:
			return IsOurRelation(((AlterTableStmt *) statement)->relation);
		case T_AlterOwnerStmt:
			return ((AlterOwnerStmt *) statement)->objectType == OBJECT_FOREIGN_SERVER &&
				IsOurServer(strVal(((AlterOwnerStmt *) statement)->object));
		case T_RenameStmt:
			return ((RenameStmt *) statement)->renameType == OBJECT_FOREIGN_SERVER ?
				IsOurServer(strVal(((RenameStmt *) statement)->object)) :
				IsOurRelation(((RenameStmt *) statement)->relation);
		default:
			return false;
	}
}

/*
 * Has a superuser taken on another role for the whole session? privid restore
 * does, and refreshes views of its own, because nothing else confines what a
 * dump says to the rights of its owner.
 */
static bool
IsRestoring(void)
{
	return GetSessionUserId() != GetAuthenticatedUserId() && superuser_arg(GetAuthenticatedUserId());
}

/* Refuse a definition; called for what runs inside of a refresh. */
void
RefuseDefinition(Node *statement)
{
	if (IsDefinition(statement) && !IsRestoring())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot define cameras or tables of cameras while a materialized view is refreshed"),
				 errhint("Run the statement by itself.")));
}
