/*
 * rewrite.c: the planner hook. Nothing but releases gets past it.
 *
 * The outermost aggregating level over raw rows becomes a release: a call of
 * privid.release with one column per group expression and per aggregate. What
 * the level computes from those columns (arithmetic, HAVING, ORDER BY, LIMIT,
 * window functions) and all levels above it stay ordinary SQL, because they
 * see released values only. A level that shows raw rows without aggregating
 * them is refused.
 */
#include "privid.h"

#include "optimizer/optimizer.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/paths.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

PlanningFrame *planning = NULL;

static planner_hook_type previous_planner = NULL;
static set_rel_pathlist_hook_type previous_pathlist = NULL;
static Query *inner_query = NULL;	/* the one query that may be planned as it is */

static void ProcessQuery(Query *query);

/* ------------------------------------------------------------------ looking */

static bool
MentionsPrividWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE && IsPrividTable(rte->relid);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, MentionsPrividWalker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, MentionsPrividWalker, context);
}

static bool
MentionsPrivid(Query *query)
{
	return MentionsPrividWalker((Node *) query, NULL);
}

static bool
Aggregates(Query *query)
{
	return query->hasAggs || query->groupClause || query->groupingSets || query->havingQual;
}

/* Do the rows of this level come from raw rows, without an aggregate in between? */
static bool
ShowsRaw(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE && IsPrividTable(rte->relid))
			return true;
		if (rte->rtekind == RTE_SUBQUERY && !Aggregates(rte->subquery) && ShowsRaw(rte->subquery))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ raw rows for owners */

/*
 * May the current role read this table raw? Its session must have asked for
 * it, and both the session's role and the effective one must own the camera:
 * a SECURITY DEFINER function of the owner lends nothing.
 */
bool
MayReadRaw(Oid relid, bool complain)
{
	Oid			serverid = GetForeignTable(relid)->serverid;
	bool		may = privid_raw &&
	pg_foreign_server_ownercheck(serverid, GetUserId()) &&
	pg_foreign_server_ownercheck(serverid, GetOuterUserId());

	if (!may && complain)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("foreign table \"%s\" can only be read through an aggregate", get_rel_name(relid)),
				 errdetail("Its rows come from a protected camera; only releases with noise leave the database."),
				 errhint("Use count, or sum with range(column, low, high), over the whole table or with GROUP BY.")));
	return may;
}

static bool
LacksRawWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE &&
			IsPrividTable(rte->relid) && !MayReadRaw(rte->relid, false);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, LacksRawWalker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, LacksRawWalker, context);
}

/* ------------------------------------------------------------------ common table expressions */

typedef struct InlineContext
{
	CommonTableExpr *cte;
	int			levelsup;
	bool		any;
} InlineContext;

/* Put a copy of the CTE's query where the CTE is referenced. */
static bool
InlineWalker(Node *node, void *arg)
{
	InlineContext *context = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		context->levelsup++;
		query_tree_walker((Query *) node, InlineWalker, context, QTW_EXAMINE_RTES_AFTER);
		context->levelsup--;
		return false;
	}
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_CTE && strcmp(rte->ctename, context->cte->ctename) == 0 &&
			rte->ctelevelsup == context->levelsup)
		{
			rte->rtekind = RTE_SUBQUERY;
			rte->subquery = copyObject((Query *) context->cte->ctequery);
			rte->security_barrier = false;
			if (context->levelsup > 0)
				IncrementVarSublevelsUp((Node *) rte->subquery, context->levelsup, 1);
			rte->ctename = NULL;
			rte->ctelevelsup = 0;
			rte->self_reference = false;
			rte->coltypes = NIL;
			rte->coltypmods = NIL;
			rte->colcollations = NIL;
			context->cte->cterefcount--;
		}
		return false;
	}
	return expression_tree_walker(node, InlineWalker, context);
}

/*
 * A CTE that hands raw rows up becomes a subquery, so that the aggregating
 * level sees through it. One that is a release stays: it is released once,
 * however often it is mentioned. A level that is a release with all that is
 * below it takes in all its CTEs.
 */
static void
InlineCtes(Query *query, bool all)
{
	ListCell   *lc;

	foreach(lc, query->cteList)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);
		Query	   *body = (Query *) cte->ctequery;
		InlineContext context = {.cte = cte, .levelsup = -1};

		if (!IsA(body, Query) || body->commandType != CMD_SELECT || cte->cterecursive || (!all && !MentionsPrivid(body)))
			continue;
		InlineCtes(body, all);
		if (!all && (Aggregates(body) || !ShowsRaw(body)))
			continue;
		InlineWalker((Node *) query, &context);
		query->cteList = foreach_delete_current(query->cteList, lc);
	}
}

/* ------------------------------------------------------------------ splitting a level */

typedef struct SplitContext
{
	List	   *targets;		/* of the release: group expressions, then aggregates */
	int			sublevels;
} SplitContext;

/* The release's column for an expression, or 0. */
static int
ReleasedColumn(SplitContext *context, Node *node)
{
	ListCell   *lc;

	foreach(lc, context->targets)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (equal(tle->expr, node))
			return tle->resno;
	}
	return 0;
}

static Node *
SplitMutator(Node *node, void *arg)
{
	SplitContext *context = arg;
	int			column;

	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
	{
		Query	   *query;

		context->sublevels++;
		query = query_tree_mutator((Query *) node, SplitMutator, context, 0);
		context->sublevels--;
		return (Node *) query;
	}
	if (context->sublevels > 0)
	{
		/* a subquery next to the release must not reach into its raw level */
		if ((IsA(node, Var) && ((Var *) node)->varlevelsup == context->sublevels) ||
			(IsA(node, Aggref) && ((Aggref *) node)->agglevelsup == context->sublevels))
			ereport(ERROR,
					(errcode(ERRCODE_PRIVID_NO_RULE),
					 errmsg("a correlated subquery cannot be used in a release"),
					 errhint("Put the release into a subquery in FROM, and correlate with its columns."),
					 errposition(CharacterPosition(planning->source, exprLocation(node)))));
		return expression_tree_mutator(node, SplitMutator, context);
	}
	column = ReleasedColumn(context, node);
	if (column > 0)
		return (Node *) makeVar(1, column, exprType(node), exprTypmod(node), exprCollation(node), 0);
	if (IsA(node, Aggref) && ((Aggref *) node)->agglevelsup == 0)
	{
		Aggref	   *agg = copyObject((Aggref *) node);
		char	   *name = get_func_name(agg->aggfnoid);

		context->targets = lappend(context->targets,
								   makeTargetEntry((Expr *) agg, list_length(context->targets) + 1, name, false));
		return SplitMutator(node, context);
	}
	if (IsA(node, GroupingFunc))
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_NO_RULE),
				 errmsg("GROUPING cannot be used in a release"),
				 errposition(CharacterPosition(planning->source, exprLocation(node)))));
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == 0)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("a raw column cannot be shown next to an aggregate"),
				 errposition(CharacterPosition(planning->source, ((Var *) node)->location))));
	return expression_tree_mutator(node, SplitMutator, context);
}

/* The release: the raw level's FROM and WHERE, with only keys and aggregates as its columns. */
static Query *
MakeReleaseQuery(Query *query, List *original, List *targets, TargetEntry *extra)
{
	Query	   *release = makeNode(Query);
	ListCell   *lc;

	release->commandType = CMD_SELECT;
	release->querySource = query->querySource;
	release->canSetTag = true;
	release->rtable = query->rtable;
	release->jointree = query->jointree;
	release->hasSubLinks = query->hasSubLinks;
	release->hasAggs = query->hasAggs;
	release->targetList = targets;
	if (extra)
	{
		SortGroupClause *group = MakeSortGroup(extra, targets);

		release->groupClause = list_make1(group);
	}
	release->groupingSets = query->groupingSets;
	foreach(lc, query->groupClause)
	{
		SortGroupClause *group = copyObject(lfirst_node(SortGroupClause, lc));
		TargetEntry *tle = get_sortgroupclause_tle(group, original);
		ListCell   *other;

		foreach(other, targets)
		{
			TargetEntry *ours = lfirst_node(TargetEntry, other);

			if (ours->ressortgroupref && equal(ours->expr, tle->expr))
			{
				group->tleSortGroupRef = ours->ressortgroupref;
				release->groupClause = list_append_unique(release->groupClause, group);
				break;
			}
		}
	}
	release->stmt_location = query->stmt_location;
	release->stmt_len = query->stmt_len;
	return release;
}

/* FROM privid.release() AS release(columns...) */
static RangeTblEntry *
MakeReleaseEntry(List *targets, int number)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblFunction *function = makeNode(RangeTblFunction);
	Alias	   *eref = makeAlias("release", NIL);
	ListCell   *lc;

	foreach(lc, targets)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		eref->colnames = lappend(eref->colnames, makeString(tle->resname ? tle->resname : "?column?"));
		function->funccolnames = lappend(function->funccolnames, makeString(tle->resname ? tle->resname : "?column?"));
		function->funccoltypes = lappend_oid(function->funccoltypes, exprType(expr));
		function->funccoltypmods = lappend_int(function->funccoltypmods, exprTypmod(expr));
		function->funccolcollations = lappend_oid(function->funccolcollations, exprCollation(expr));
	}
	function->funccolcount = list_length(targets);
	function->funcexpr = (Node *) makeFuncExpr(ReleaseFunction(), RECORDOID, NIL, InvalidOid, InvalidOid,
											   COERCE_EXPLICIT_CALL);
	((FuncExpr *) function->funcexpr)->funcretset = true;
	/* the place of the release's query in the planning frame travels as the node's location */
	((FuncExpr *) function->funcexpr)->location = number;

	rte->rtekind = RTE_FUNCTION;
	rte->functions = list_make1(function);
	rte->alias = makeAlias("release", NIL);
	rte->eref = eref;
	rte->inFromCl = true;
	return rte;
}

/* The keys of the release, and the aggregates that the level computes with. */
static List *
SplitLevel(Query *query, SplitContext *context, TargetEntry **extra, Node **having)
{
	Expr	   *key = FindArgmaxKey(query);
	List	   *argmax = NIL;
	List	   *targets;
	ListCell   *lc;

	foreach(lc, query->groupClause)
	{
		TargetEntry *tle = get_sortgroupclause_tle(lfirst_node(SortGroupClause, lc), query->targetList);

		if (ReleasedColumn(context, (Node *) tle->expr) == 0)
		{
			TargetEntry *ours = makeTargetEntry(copyObject(tle->expr), list_length(context->targets) + 1,
												pstrdup(tle->resname ? tle->resname : "key"), false);

			ours->ressortgroupref = ours->resno;
			context->targets = lappend(context->targets, ours);
		}
	}
	if (key && ReleasedColumn(context, (Node *) key) == 0)
	{
		*extra = makeTargetEntry(copyObject(key), list_length(context->targets) + 1, pstrdup("argmax"), false);
		(*extra)->ressortgroupref = (*extra)->resno;
		context->targets = lappend(context->targets, *extra);
		argmax = list_make2_int(0, (*extra)->resno - 1);
		query->targetList = (List *) ReplaceArgmax((Node *) query->targetList, NULL);
		query->havingQual = ReplaceArgmax(query->havingQual, NULL);
	}
	else if (AsksForFirst(query))
	{
		argmax = list_make1_int(0);
		for (int i = 0; i < list_length(context->targets); i++)
			argmax = lappend_int(argmax, i);
	}
	targets = (List *) SplitMutator((Node *) query->targetList, context);
	*having = SplitMutator(query->havingQual, context);
	query->windowClause = (List *) SplitMutator((Node *) query->windowClause, context);
	query->targetList = targets;
	if (*extra)
		context->targets = lappend(context->targets,
								   makeTargetEntry((Expr *) MakeCountStar(), list_length(context->targets) + 1, pstrdup("count"), false));
	return argmax;
}

/* Turn a raw aggregating level into ordinary SQL over a release, which is returned: its query and its argmax. */
static List *
DetachRelease(Query *query, int number)
{
	SplitContext context = {NIL, 0};
	TargetEntry *extra = NULL;
	List	   *original = query->targetList;
	List	   *argmax;
	Node	   *having;
	Query	   *release;
	RangeTblRef *ref = makeNode(RangeTblRef);

	if (query->commandType != CMD_SELECT)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("a statement that changes data cannot read raw rows")));
	argmax = SplitLevel(query, &context, &extra, &having);
	if (context.targets == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_NO_RULE),
				 errmsg("a release needs an aggregate or a group")));

	release = MakeReleaseQuery(query, original, context.targets, extra);
	ref->rtindex = 1;
	query->rtable = list_make1(MakeReleaseEntry(context.targets, number));
	query->jointree = makeFromExpr(list_make1(ref), having);
	query->havingQual = NULL;
	query->groupClause = NIL;
	query->groupingSets = NIL;
	query->hasAggs = false;
	query->rowMarks = NIL;
	return list_make2(release, argmax);
}

static void
MakeRelease(Query *query)
{
	planning->releases = lappend(planning->releases, DetachRelease(query, list_length(planning->releases)));
}

/* ------------------------------------------------------------------ which level is the release */

/* The query that a FROM item stands for, if it is one: a subquery, or a CTE of this level. */
static Query *
QueryOf(Query *query, RangeTblEntry *rte)
{
	ListCell   *lc;

	if (rte->rtekind == RTE_SUBQUERY)
		return rte->subquery;
	if (rte->rtekind == RTE_CTE && rte->ctelevelsup == 0 && !rte->self_reference)
		foreach(lc, query->cteList)
		{
			CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

			if (strcmp(cte->ctename, rte->ctename) == 0)
				return IsA(cte->ctequery, Query) ? (Query *) cte->ctequery : NULL;
		}
	return NULL;
}

/* Is there an aggregate over raw rows below this level? */
static bool
HasAggregateBelow(Query *query)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, query->rtable)
	{
		Query	   *below = QueryOf(query, lfirst_node(RangeTblEntry, lc));

		if (below && MentionsPrivid(below) && (Aggregates(below) || HasAggregateBelow(below)))
			return true;
	}
	return false;
}

static bool
HasParameterWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, HasParameterWalker, context, 0);
	return expression_tree_walker(node, HasParameterWalker, context);
}

/*
 * Has the engine a rule for this level as a release, with all that is below
 * it? If not, *refusal is why. A plan that is made without knowing its
 * parameters cannot ask; then the outer level is taken.
 */
static bool
IsReleasable(Query *level, ErrorData **refusal)
{
	MemoryContext caller = CurrentMemoryContext;
	Query	   *query = copyObject(level);
	volatile bool accepted = false;

	InlineCtes(query, true);
	PG_TRY();
	{
		List	   *release = DetachRelease(query, 0);

		if (planning->params == NULL && HasParameterWalker(linitial(release), NULL))
			accepted = true;
		else
		{
			List	   *tables;
			Query	   *concrete = MakeConcrete(linitial_node(Query, release), planning->params);
			text	   *reply = Ask('T', RequestOf(concrete, lsecond(release), planning->source, &tables), 't', 0, NULL);

			if (!JsonFieldBool(reply, "accepted"))
				RaiseEngineError(JsonField(reply, "error"));
			accepted = true;
		}
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		*refusal = CopyErrorData();
		if ((*refusal)->sqlerrcode != ERRCODE_PRIVID_NO_RULE && (*refusal)->sqlerrcode != ERRCODE_PRIVID_RAW_ROWS)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return accepted;
}

/* Can every aggregate below this level be a release, so that the level itself is ordinary SQL? */
static bool
IsReleasableBelow(Query *query)
{
	ListCell   *lc;
	ErrorData  *ignored;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Query	   *below = QueryOf(query, rte);

		if (below == NULL || !MentionsPrivid(below))
			continue;
		if (Aggregates(below) ? IsReleasable(below, &ignored) : !ShowsRaw(below))
			continue;
		if (ShowsRaw(below) || !HasAggregateBelow(below) || !IsReleasableBelow(below))
			return false;
	}
	return true;
}

/* Make the level a release if it must be one; true when it is one now. */
static bool
ReleaseHere(Query *query)
{
	ErrorData  *refusal = NULL;
	bool		raw = ShowsRaw(query);

	if (!Aggregates(query) || (!raw && !HasAggregateBelow(query)))
		return false;
	if (HasAggregateBelow(query) && !IsReleasable(query, &refusal))
	{
		if (raw || !IsReleasableBelow(query))
			ReThrowError(refusal);
		return false;
	}
	InlineCtes(query, true);
	MakeRelease(query);
	return true;
}

/* ------------------------------------------------------------------ walking the statement */

static bool
ProcessWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		ProcessQuery((Query *) node);
		return false;
	}
	return expression_tree_walker(node, ProcessWalker, context);
}

static void
RefuseRaw(Query *query)
{
	if (query->resultRelation > 0 && IsPrividTable(rt_fetch(query->resultRelation, query->rtable)->relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("foreign table \"%s\" of a camera cannot be changed",
						get_rel_name(rt_fetch(query->resultRelation, query->rtable)->relid))));
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_RAW_ROWS),
			 errmsg("raw rows of a camera cannot be shown"),
			 errdetail("Only aggregates with noise leave the database."),
			 errhint("Use count, or sum with range(column, low, high), over the whole table or with GROUP BY."),
			 errposition(CharacterPosition(planning->source, exprLocation((Node *) query->targetList)))));
}

static void
ProcessQuery(Query *query)
{
	check_stack_depth();
	if (!MentionsPrivid(query))
		return;
	InlineCtes(query, false);
	if (ReleaseHere(query))
	{
		/* subqueries beside the release (HAVING, select list) may be releases too */
		query_tree_walker(query, ProcessWalker, NULL, 0);
		return;
	}
	if (ShowsRaw(query))
	{
		ListCell   *lc;

		foreach(lc, query->rtable)
		{
			RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

			if (rte->rtekind == RTE_RELATION)
			{
				if (rte->relkind == RELKIND_FOREIGN_TABLE && IsPrividTable(rte->relid))
					RefuseRaw(query);
			}
		}
	}
	query_tree_walker(query, ProcessWalker, NULL, 0);
}

/* ------------------------------------------------------------------ hooks */

typedef struct EntryContext
{
	List	   *entries;
	List	   *oids;
} EntryContext;

static bool
CollectEntries(Node *node, void *arg)
{
	EntryContext *context = arg;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION)
		{
			RangeTblEntry *copy = copyObject(rte);

			copy->securityQuals = NIL;
			copy->inh = false;
			context->entries = lappend(context->entries, copy);
			context->oids = list_append_unique_oid(context->oids, rte->relid);
		}
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, CollectEntries, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, CollectEntries, context);
}

/* The marker of a release is ours alone: a statement that writes it itself is refused. */
static bool
CallsReleaseWalker(Node *node, void *release)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == *(Oid *) release)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("privid.release cannot be called directly"),
				 errposition(CharacterPosition(planning->source, ((FuncExpr *) node)->location))));
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, CallsReleaseWalker, release, 0);
	return expression_tree_walker(node, CallsReleaseWalker, release);
}

static PlannedStmt *
CallPlanner(Query *original, const char *source, int options, ParamListInfo params, PlanningFrame *frame)
{
	PlannedStmt *volatile stmt = NULL;

	frame->outer = planning;
	planning = frame;
	PG_TRY();
	{
		Query	   *parse = original;

		if (!frame->inner && MentionsPrivid(parse))
		{
			if (LacksRawWalker((Node *) parse, NULL))
			{
				Oid			release = ReleaseFunction();

				CallsReleaseWalker((Node *) parse, &release);
				parse = copyObject(parse);
				ProcessQuery(parse);
			}
		}
		stmt = previous_planner ? previous_planner(parse, source, options, params)
			: standard_planner(parse, source, options, params);
	}
	PG_FINALLY();
	{
		planning = frame->outer;
	}
	PG_END_TRY();
	return stmt;
}

/*
 * Every statement passes here once, after views and rules are expanded. The
 * tables inside a release are added to the plan's range table, so that the
 * executor checks permissions on them and takes their locks as for any other.
 */
static PlannedStmt *
PrividPlanner(Query *parse, const char *source, int options, ParamListInfo params)
{
	PlanningFrame frame = {.source = source,.params = params,.inner = parse == inner_query};
	EntryContext context = {NIL, NIL};
	PlannedStmt *stmt;

	inner_query = NULL;
	stmt = CallPlanner(parse, source, options, params, &frame);
	if (frame.releases)
	{
		ListCell   *lc;

		foreach(lc, frame.releases)
			CollectEntries(linitial(lfirst_node(List, lc)), &context);
		stmt->rtable = list_concat(stmt->rtable, context.entries);
		stmt->relationOids = list_concat(stmt->relationOids, context.oids);
	}
	return stmt;
}

/* Plan the inner query of a release: it passes the hook untouched, and so do only its own tables. */
PlannedStmt *
PlanInner(Query *query)
{
	inner_query = query;
	return pg_plan_query(query, NULL, 0, NULL);
}

/* A release has one path: the custom scan. */
static void
PrividPathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (planning && planning->releases && rte->rtekind == RTE_FUNCTION && list_length(rte->functions) == 1)
	{
		RangeTblFunction *function = linitial_node(RangeTblFunction, rte->functions);
		FuncExpr   *call = (FuncExpr *) function->funcexpr;

		if (IsA(call, FuncExpr) && call->funcid == ReleaseFunction() &&
			call->location >= 0 && call->location < list_length(planning->releases))
		{
			rel->pathlist = NIL;
			rel->partial_pathlist = NIL;
			rel->consider_parallel = false;
			add_path(rel, MakeReleasePath(root, rel, rti, call->location));
		}
	}
	if (previous_pathlist)
		previous_pathlist(root, rel, rti, rte);
}

void
InstallPlannerHook(void)
{
	previous_planner = planner_hook;
	planner_hook = PrividPlanner;
	previous_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = PrividPathlist;
}
