/*
 * raw.c: raw rows for the owner of a camera, and for nobody who borrows an
 * owner's rights.
 *
 * An owner asks with SET privid.raw = on. What an analyst defined must not run
 * in the statement that then reads: so the statement must be the session's own
 * (not one inside a function, a trigger or a DO block), must name the table
 * itself or through a view of the owner's, and may call only functions that
 * PostgreSQL, this extension, a superuser or the owner made.
 */
#include "privid.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* How many statements enclose the one that is being planned or begun: 0 for one that a client sent. */
int			statement_depth = 0;

static ExecutorRun_hook_type previous_run = NULL;
static ExecutorFinish_hook_type previous_finish = NULL;
static ProcessUtility_hook_type previous_utility = NULL;

/* Is this a statement that the client itself sent, in its own name? */
static bool
IsTopLevel(void)
{
	return statement_depth == 0 && !InSecurityRestrictedOperation() && !InLocalUserIdChange() &&
		DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0)) == 0;
}

/*
 * May the current role read this table raw? Its session must have asked for
 * it in a statement of its own, and both the session's role and the effective
 * one must own the camera: a SECURITY DEFINER function of the owner lends nothing.
 */
bool
MayReadRaw(Oid relid)
{
	Oid			serverid = GetForeignTable(relid)->serverid;

	return privid_raw && IsTopLevel() &&
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

/* Find a table of a camera that the current role may not read raw. */
static bool
LacksRawWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return IsPrividEntry((RangeTblEntry *) node) && !MayReadRaw(((RangeTblEntry *) node)->relid);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, LacksRawWalker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, LacksRawWalker, context);
}

/* Is there a table of a camera in this query that the current role may not read raw? */
bool
LacksRaw(Query *query)
{
	return LacksRawWalker((Node *) query, NULL);
}

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

/* Was this function made by somebody whose code the current role runs at its own risk, and does it call nobody else's? */
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
	return owner == GetUserId() || superuser_arg(owner);
}

/* For check_functions_in_node: true ends the search. */
static bool
IsUntrusted(Oid funcid, void *context)
{
	return !IsTrustedFunction(funcid);
}

/* Is this view the current role's, or a superuser's? */
static bool
IsOwnView(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return false;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner == GetUserId() || superuser_arg(owner);
}

/* Refuse what somebody else defined, wherever it stands in a statement over raw rows. */
static bool
RawStatementWalker(Node *node, void *source)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, IsUntrusted, NULL) || HasForeignType(node))
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("a statement that reads raw rows cannot call this function or use this type"),
				 errdetail("What another role defined could run with your rights, beside rows that only you may see."),
				 errhint("Use columns with comparisons, arithmetic and plain aggregates; copy the rows into a table of your own first."),
				 errposition(CharacterPosition(source, exprLocation(node)))));
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_VIEW && !IsOwnView(rte->relid))
			ereport(ERROR,
					(errcode(ERRCODE_PRIVID_RAW_ROWS),
					 errmsg("a statement that reads raw rows cannot use view \"%s\" of another role", get_rel_name(rte->relid)),
					 errhint("Name the foreign table itself.")));
		if (IsPrividEntry(rte) && OidIsValid(rte->checkAsUser) && rte->checkAsUser != GetUserId())
			ereport(ERROR,
					(errcode(ERRCODE_PRIVID_RAW_ROWS),
					 errmsg("raw rows of foreign table \"%s\" cannot be read through a view of another role",
							get_rel_name(rte->relid)),
					 errhint("Name the foreign table itself.")));
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, RawStatementWalker, source, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, RawStatementWalker, source);
}

/* Mark the tables that were looked at here: what the planner adds later (a function's body) has no mark. */
static bool
MarkWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (!IsPrividEntry(rte))
			return false;
		if (HasFamily(rte->relid))
			ereport(ERROR,
					(errcode(ERRCODE_PRIVID_RAW_ROWS),
					 errmsg("raw rows of foreign table \"%s\" cannot be read while it has a parent or a child", get_rel_name(rte->relid)),
					 errdetail("Conditions of a child would be evaluated with your rights.")));
		rte->inh = false;
		rte->values_lists = list_make1_int(true);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, MarkWalker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, MarkWalker, context);
}

/*
 * Refuse a statement over raw rows in which anything of another role would run;
 * mark its tables as allowed. The mark lies where the parser puts nothing.
 */
void
ApproveRawStatement(Query *query, const char *source)
{
	RawStatementWalker((Node *) query, (void *) source);
	MarkWalker((Node *) query, NULL);
}

/* Was this entry marked? */
bool
IsApproved(RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && rte->values_lists != NIL;
}

/* ------------------------------------------------------------------ how deep a statement stands */

/* What runs while a plan is executed is not the client's own statement. */
static void
PrividExecutorRun(QueryDesc *desc, ScanDirection direction, uint64 count, bool once)
{
	statement_depth++;
	PG_TRY();
	{
		if (previous_run)
			previous_run(desc, direction, count, once);
		else
			standard_ExecutorRun(desc, direction, count, once);
	}
	PG_FINALLY();
	{
		statement_depth--;
	}
	PG_END_TRY();
}

/* The same for triggers that fire at the end. */
static void
PrividExecutorFinish(QueryDesc *desc)
{
	statement_depth++;
	PG_TRY();
	{
		if (previous_finish)
			previous_finish(desc);
		else
			standard_ExecutorFinish(desc);
	}
	PG_FINALLY();
	{
		statement_depth--;
	}
	PG_END_TRY();
}

/* A query, and not EXECUTE, whose arguments are evaluated beside it. */
static bool
IsQuery(Node *node)
{
	return IsA(node, Query) && ((Query *) node)->commandType != CMD_UTILITY;
}

/* Utility statements that carry a query of the client's own; all others may run code that is not. */
static bool
CarriesQuery(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_FetchStmt:
		case T_PrepareStmt:
			return true;
		case T_ExplainStmt:
			return IsQuery(((ExplainStmt *) statement)->query);
		case T_CreateTableAsStmt:
			return IsQuery(((CreateTableAsStmt *) statement)->query);
		case T_DeclareCursorStmt:
			return IsQuery(((DeclareCursorStmt *) statement)->query);
		case T_CopyStmt:
			return ((CopyStmt *) statement)->query != NULL;
		default:
			return false;
	}
}

/* Every utility statement passes here. */
static void
PrividUtility(PlannedStmt *pstmt, const char *source, bool readOnlyTree, ProcessUtilityContext context,
			  ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	int			deeper = CarriesQuery(pstmt->utilityStmt) ? 0 : 1;

	MakeHomeFor(pstmt->utilityStmt);
	statement_depth += deeper;
	PG_TRY();
	{
		if (previous_utility)
			previous_utility(pstmt, source, readOnlyTree, context, params, env, dest, qc);
		else
			standard_ProcessUtility(pstmt, source, readOnlyTree, context, params, env, dest, qc);
	}
	PG_FINALLY();
	{
		statement_depth -= deeper;
	}
	PG_END_TRY();
}

/* Called once, when the library is preloaded. */
void
InstallRaw(void)
{
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = PrividExecutorRun;
	previous_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = PrividExecutorFinish;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = PrividUtility;
}
