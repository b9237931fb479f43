/*
 * hook.c: the planner hook. Nothing but releases gets past it.
 *
 * Every statement passes here once, after views and rules are expanded. One
 * that mentions a table of a camera is rewritten (levels.c, split.c): where it
 * aggregates raw rows stands a scan of a release instead, and all else of it is
 * ordinary SQL over released values.
 */
#include "privid.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"

static planner_hook_type previous_planner = NULL;
static set_rel_pathlist_hook_type previous_pathlist = NULL;

/* Gather entries for relations. */
static bool
CollectRelations(Node *node, void *context)
{
	List	  **relations = context;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		if (((RangeTblEntry *) node)->rtekind == RTE_RELATION)
			*relations = lappend(*relations, node);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, CollectRelations, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, CollectRelations, context);
}

/* RangeTblEntry: all relations that a tree names, also through views and in subqueries. */
List *
RelationsOf(Node *tree)
{
	List	   *relations = NIL;

	(void) CollectRelations(tree, &relations);
	return relations;
}

/* Does a table of a camera occur anywhere in this query? */
bool
MentionsPrivid(Query *query)
{
	ListCell   *lc;

	foreach(lc, RelationsOf((Node *) query))
		if (IsPrividEntry(lfirst(lc)))
			return true;
	return false;
}

/* A parallel worker knows nothing of what its leader is about: whether it previews, or whose statement it carries out. */
static void
CheckProcess(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("tables of cameras cannot be read during a parallel operation"),
				 errhint("Declare functions that read them PARALLEL UNSAFE, as they are by default.")));
}

/*
 * Rewrite and plan. The tables inside releases are added to the plan's range
 * table, so that the executor checks permissions on them and takes their locks
 * as for any other.
 */
static PlannedStmt *
PrividPlanner(Query *parse, const char *source, int options, ParamListInfo params)
{
	Statement	statement = {.source = source,.params = params};
	PlannedStmt *stmt;
	ListCell   *lc;

	if (MentionsPrivid(parse))
	{
		bool		raw = ReadsRaw(parse, source);

		CheckProcess();
		/* as the executor will: public rows are read, and refusals that depend on them heard, while a statement is planned */
		ExecCheckRTPerms(RelationsOf((Node *) parse), true);
		parse = copyObject(parse);
		if (raw)
			ApproveRawStatement(parse, source);
		else
			ProcessQuery(parse, &statement);
	}
	stmt = previous_planner ? previous_planner(parse, source, options, params)
		: standard_planner(parse, source, options, params);
	foreach(lc, statement.entries)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		stmt->rtable = lappend(stmt->rtable, rte);
		stmt->relationOids = lappend_oid(stmt->relationOids, rte->relid);
	}
	return stmt;
}

/*
 * A release has one path: the custom scan. It is known by what split.c put
 * into its range table entry, where the parser never puts anything.
 */
static void
PrividPathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (rte->rtekind == RTE_FUNCTION && rte->values_lists != NIL)
	{
		rel->pathlist = NIL;
		rel->partial_pathlist = NIL;
		rel->consider_parallel = false;
		add_path(rel, MakeReleasePath(root, rel, rte->values_lists));
	}
	if (previous_pathlist)
		previous_pathlist(root, rel, rti, rte);
}

/* Called once, when the library is preloaded. */
void
InstallPlannerHook(void)
{
	previous_planner = planner_hook;
	planner_hook = PrividPlanner;
	previous_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = PrividPathlist;
}
