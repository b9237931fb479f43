/*
 * raw.c: raw rows for the owner of a camera, and for nobody who borrows an
 * owner's rights.
 *
 * An owner asks with SET privid.raw = on. What an analyst defined must not run
 * in the statement that then reads: so the statement must be one that the
 * client itself sent (not one inside a function, a trigger or a DO block), must
 * name the table itself or through a view of the owner's, may call only
 * functions that PostgreSQL, this extension, a superuser or the owner made, and
 * may touch only relations of theirs beside tables of cameras that carry
 * nobody's code.
 */
#include "privid.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/params.h"
#include "parser/parsetree.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/portal.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

/* ------------------------------------------------------------------ who reads */

/*
 * Is the client's message being carried out, and no function that it runs?
 * Functions have a line in the context of errors; the client has none, or that
 * of its parameters. Expressions of a view or a policy have none either, so this
 * is a sign only together with others.
 */
bool
IsClientAtWork(void)
{
	ErrorContextCallback *context = error_context_stack;

	if (context && context->callback == ParamsErrorCallback)
		context = context->previous;
	return context == NULL && !InSecurityRestrictedOperation() && !InLocalUserIdChange() && !RunsInside();
}

/*
 * Is this a statement that the client itself sent? Its text is then the very
 * message, or the copy of it that the client's portal has. Whatever runs inside
 * of it (by SPI, in a function, for EXECUTE) has a text of its own.
 */
static bool
IsClientsStatement(const char *source)
{
	if (source == NULL || debug_query_string == NULL || !IsClientAtWork())
		return false;
	if (source == debug_query_string)
		return true;
	return ActivePortal && source == ActivePortal->sourceText &&
		strcmp(source, debug_query_string) == 0;
}

/*
 * May the current role read this table raw? Its session must have asked for
 * it, and both the session's role and the effective one must own the camera.
 */
static bool
MayReadRaw(Oid relid)
{
	Oid			serverid = GetForeignTable(relid)->serverid;

	return privid_raw &&
		pg_foreign_server_ownercheck(serverid, GetUserId()) &&
		pg_foreign_server_ownercheck(serverid, GetOuterUserId());
}

/* The error of a scan that nobody authorised. */
void
RefuseRaw(Oid relid)
{
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_RAW_ROWS),
			 errmsg("foreign table \"%s\" can only be read through an aggregate", get_rel_name(relid)),
			 errdetail("Its rows come from a protected camera; only releases with noise leave the database."),
			 errhint("Use count, or sum with range(column, low, high), over the whole table or with GROUP BY.")));
}

/* Does the client, and no rule, read tables that it may read raw? */
bool
ReadsRaw(Query *query, const char *source)
{
	ListCell   *lc;

	if (!IsClientsStatement(source) || query->querySource != QSRC_ORIGINAL)
		return false;
	foreach(lc, RelationsOf((Node *) query))
		if (IsPrividEntry(lfirst(lc)) && !MayReadRaw(lfirst_node(RangeTblEntry, lc)->relid))
			return false;
	return true;
}

/*
 * Check again who reads: a plan may be older than this execution, and code can
 * name a statement that the client prepared.
 */
void
CheckRawScan(Oid relid, const char *source)
{
	if (!IsClientsStatement(source) || !MayReadRaw(relid))
		RefuseRaw(relid);
}

/*
 * Check who fetches: a cursor or a portal stays open after its statement, and
 * code can name it. Rows of a cursor are for a FETCH of the client's that names
 * it, all others for the message that is the statement itself.
 */
void
CheckRawFetch(Oid relid, bool declared, const char *source)
{
	Node	   *utility = ClientUtility();

	if (declared ? !IsClientAtWork() || !utility || !IsA(utility, FetchStmt) || !ActivePortal ||
		strcmp(((FetchStmt *) utility)->portalname, ActivePortal->name) != 0 : !IsClientsStatement(source))
		RefuseRaw(relid);
}

/* Is the scan that begins that of a cursor? One that is held would be read while others' triggers fire. */
bool
IsDeclared(Oid relid)
{
	Node	   *utility = ClientUtility();

	if (!utility || !IsA(utility, DeclareCursorStmt))
		return false;
	if (((DeclareCursorStmt *) utility)->options & CURSOR_OPT_HOLD)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("raw rows of foreign table \"%s\" cannot be held by a cursor", get_rel_name(relid)),
				 errhint("Fetch them in the transaction, or copy them into a table of your own.")));
	return true;
}

/* ------------------------------------------------------------------ what else the statement contains */

/* Does it take values of whatever type, and so may look casts and operators up that somebody defined? */
static bool
TakesAnything(Oid funcid)
{
	Oid		   *types;
	int			count;

	if (funcid == F_COUNT_ANY)
		return false;
	(void) get_func_signature(funcid, &types, &count);
	for (int i = 0; i < count; i++)
		if (get_typtype(types[i]) == TYPTYPE_PSEUDO && types[i] != ANYENUMOID)
			return true;
	return false;
}

/* Is this function PostgreSQL's, ours or a superuser's, and does it call nobody else's? One of the role's own may not be its own idea. */
static bool
IsTrustedFunction(Oid funcid)
{
	HeapTuple	tuple;
	Oid			owner;

	if (IsBuiltin(funcid) || IsOurs(funcid))
		return !TakesAnything(funcid);
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	if (!HeapTupleIsValid(tuple))
		return false;
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return superuser_arg(owner);
}

/* For check_functions_in_node: true ends the search. */
static bool
IsUntrusted(Oid funcid, void *context)
{
	return !IsTrustedFunction(funcid);
}

/* Is this operator, or one of these, not PostgreSQL's own? Even where its function is, the planner may put its negator in its place. */
static bool
UsesForeignOperator(Node *node)
{
	ListCell   *lc;

	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return !IsBuiltin(((OpExpr *) node)->opno);
		case T_ScalarArrayOpExpr:
			return !IsBuiltin(((ScalarArrayOpExpr *) node)->opno);
		case T_SortGroupClause:
			return !IsBuiltin(((SortGroupClause *) node)->eqop) ||
				(OidIsValid(((SortGroupClause *) node)->sortop) && !IsBuiltin(((SortGroupClause *) node)->sortop));
		case T_RowCompareExpr:
			foreach(lc, ((RowCompareExpr *) node)->opnos)
				if (!IsBuiltin(lfirst_oid(lc)))
					return true;
			return false;
		default:
			return false;
	}
}

/*
 * Refuse to store a value of a type that somebody else can define casts for: they
 * would run with the rights of whoever looks at the copy.
 */
static void
CheckStored(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);
		Oid			type = exprType((Node *) target->expr);

		if (!target->resjunk && !IsBuiltin(type))
			ereport(ERROR,
					(errcode(ERRCODE_PRIVID_RAW_ROWS),
					 errmsg("a raw value of type %s cannot be stored", format_type_be(type)),
					 errdetail("Whoever owns the type can define casts, which run with the rights of whoever uses the copy."),
					 errhint("Store its label as text: privid.label(%s).", target->resname ? quote_identifier(target->resname) : "column")));
	}
}

/* Is the client's statement one that makes a table of what it selects? */
static bool
MakesTable(void)
{
	Node	   *utility = ClientUtility();

	if (utility && IsA(utility, ExplainStmt) && IsA(((ExplainStmt *) utility)->query, Query))
		utility = castNode(Query, ((ExplainStmt *) utility)->query)->utilityStmt;
	return utility && IsA(utility, CreateTableAsStmt);
}

/* What runs when rows are written to a table, whoever defined it; or NULL. */
static char *
WhatWritingRuns(Relation rel)
{
	TupleConstr *constr = rel->rd_att->constr;
	ListCell   *lc;
	char	   *found = NULL;

	if (rel->rd_rel->relkind != RELKIND_RELATION || HasFamily(RelationGetRelid(rel)) || rel->rd_rel->relispartition)
		return "a parent or a child";
	if (rel->rd_rel->relrowsecurity)
		return "row security";
	if (rel->trigdesc)
		return "a trigger or a foreign key";
	if (rel->rd_rules && rel->rd_rules->numLocks > 0)
		return "a rule";
	if (constr && (constr->num_check > 0 || constr->has_generated_stored))
		return "a check constraint or a generated column";
	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (RelationGetIndexExpressions(index) != NIL || RelationGetIndexPredicate(index) != NIL || index->rd_index->indisexclusion)
			found = "an index on an expression";
		index_close(index, AccessShareLock);
	}
	return found;
}

/* Refuse to write raw rows to a table where code would see them. The statement's own lock lets nobody add any before it ends. */
static void
CheckTarget(Query *query)
{
	RangeTblEntry *target = query->resultRelation > 0 ? rt_fetch(query->resultRelation, query->rtable) : NULL;
	Relation	rel;
	char	   *what;

	if (!target || IsPrividEntry(target))
		return;
	rel = relation_open(target->relid, NoLock);
	what = WhatWritingRuns(rel);
	if (what)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("raw rows cannot be written to table \"%s\" while it has %s", RelationGetRelationName(rel), what),
				 errdetail("What runs when rows are written would see them, and may have been defined by another role."),
				 errhint("Write them to a table without it, for example with CREATE TABLE ... AS.")));
	relation_close(rel, NoLock);
}

/* Is this relation the current role's, or a superuser's? So must be all that inherit from it. */
static bool
IsOwnRelation(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(lc)));
		Oid			owner;

		if (!HeapTupleIsValid(tuple))
			return false;
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
		if (owner != GetUserId() && !superuser_arg(owner))
			return false;
	}
	return true;
}

/* Refuse what somebody else defined, wherever it stands in a statement over raw rows. */
static bool
RawStatementWalker(Node *node, void *source)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, IsUntrusted, NULL) || UsesForeignOperator(node) || HasForeignType(node))
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("a statement that reads raw rows cannot call this function or use this type"),
				 errdetail("What another role defined could run with your rights, beside rows that only you may see."),
				 errhint("Use columns with comparisons, arithmetic and plain aggregates; copy the rows into a table of your own first."),
				 errposition(CharacterPosition(source, exprLocation(node)))));
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && !IsPrividEntry(rte) && !IsOwnRelation(rte->relid))
			ereport(ERROR,
					(errcode(ERRCODE_PRIVID_RAW_ROWS),
					 errmsg("a statement that reads raw rows cannot use %s \"%s\" of another role",
							rte->relkind == RELKIND_VIEW ? "view" : "table",
							get_rel_name(rte->relid)),
					 errdetail("What another role defined could run with your rights, beside rows that only you may see."),
					 rte->relkind == RELKIND_VIEW ? errhint("Name the foreign table itself.")
					 : errhint("Copy the raw rows into a table of your own first.")));
		if (IsPrividEntry(rte) && OidIsValid(rte->checkAsUser) && rte->checkAsUser != GetUserId())
			ereport(ERROR,
					(errcode(ERRCODE_PRIVID_RAW_ROWS),
					 errmsg("raw rows of foreign table \"%s\" cannot be read through a view of another role",
							get_rel_name(rte->relid)),
					 errhint("Name the foreign table itself.")));
		return false;
	}
	if (IsA(node, Query))
	{
		if (((Query *) node)->commandType != CMD_SELECT)
			CheckStored((Query *) node);
		(void) query_tree_walker((Query *) node, RawStatementWalker, source,
								 QTW_EXAMINE_RTES_BEFORE | QTW_EXAMINE_SORTGROUP);
		CheckTarget((Query *) node);
		return false;
	}
	return expression_tree_walker(node, RawStatementWalker, source);
}

/* What of a relation is evaluated when it is planned or written, or leads to others; or NULL. */
static char *
WhatItCarries(Relation rel)
{
	TupleConstr *constr = rel->rd_att->constr;
	List	   *statistics = RelationGetStatExtList(rel);
	ObjectAddress object = {InvalidOid, InvalidOid, 0};

	if (HasFamily(RelationGetRelid(rel)) || rel->rd_rel->relispartition)
		return "a parent or a child";
	if (rel->rd_rel->relrowsecurity || rel->rd_rel->relforcerowsecurity)
		return "row security";
	if (rel->rd_rel->relhasindex)
		return "an index";
	if (constr && constr->has_generated_stored)
		return "a generated column";
	if (statistics != NIL)
		ObjectAddressSet(object, StatisticExtRelationId, linitial_oid(statistics));
	else if (constr && constr->num_check > 0)
		ObjectAddressSet(object, ConstraintRelationId,
						 get_relation_constraint_oid(RelationGetRelid(rel),
													 constr->check[0].ccname, false));
	else if (rel->rd_rules && rel->rd_rules->numLocks > 0)
		ObjectAddressSet(object, RewriteRelationId, rel->rd_rules->rules[0]->ruleId);
	else if (rel->trigdesc)
		ObjectAddressSet(object, TriggerRelationId, rel->trigdesc->triggers[0].tgoid);
	else
		return NULL;
	return getObjectDescription(&object, false);
}

/*
 * Refuse a table that carries anybody's code. The lock, which readers share, lets
 * nobody add any before the statement ends.
 */
static void
CheckPlain(Oid relid)
{
	Relation	rel = relation_open(relid, ShareLock);
	char	   *what = WhatItCarries(rel);

	if (what)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("raw rows of foreign table \"%s\" cannot be read while it has %s",
						RelationGetRelationName(rel), what),
				 errdetail("What a table carries can be evaluated with the rights of whoever reads it."),
				 errhint("Drop it, or have role \"%s\" drop it, who owns the table.",
						 GetUserNameFromId(rel->rd_rel->relowner, false))));
	for (int i = 0; i < rel->rd_att->natts; i++)
		if (!TupleDescAttr(rel->rd_att, i)->attisdropped && get_typtype(TupleDescAttr(rel->rd_att, i)->atttypid) == TYPTYPE_ENUM)
			CheckCasts(TupleDescAttr(rel->rd_att, i)->atttypid);
	relation_close(rel, NoLock);
}

/*
 * Refuse a statement over raw rows in which anything of another role would run;
 * mark its tables as allowed. The mark lies where the parser puts nothing, and
 * what the planner adds later (a function's body) has none.
 */
void
ApproveRawStatement(Query *query, const char *source)
{
	ListCell   *lc;

	if (MakesTable())
		CheckStored(query);
	RawStatementWalker((Node *) query, (void *) source);
	foreach(lc, RelationsOf((Node *) query))
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (!IsPrividEntry(rte))
			continue;
		CheckPlain(rte->relid);
		rte->inh = false;
		rte->values_lists = list_make1_int(true);
	}
}

/* Was this entry marked? */
bool
IsApproved(RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && rte->values_lists != NIL;
}
