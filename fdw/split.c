/*
 * split.c: a level that aggregates raw rows becomes two: the release, with one
 * column per group expression and per aggregate, and ordinary SQL over these
 * columns (arithmetic, HAVING, ORDER BY, LIMIT, window functions).
 */
#include "privid.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_oper.h"
#include "parser/parse_clause.h"
#include "utils/lsyscache.h"

typedef struct SplitContext
{
	List	   *targets;		/* of the release: group expressions, then aggregates */
	int			sublevels;
	Refusal    *refusal;		/* the first one */
} SplitContext;

/* Remember why this level cannot be a release. */
static void
RefuseSplit(Refusal *refusal, int sqlstate, const char *message, const char *hint, int location)
{
	if (refusal->message == NULL)
		*refusal = (Refusal)
	{
		.sqlstate = sqlstate,.message = message,.hint = hint,.location = location
	};
}

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

/* A column of the release, which has no more of them than a table. */
static TargetEntry *
AddTarget(SplitContext *context, Expr *expr, const char *name, bool key)
{
	TargetEntry *tle;

	if (list_length(context->targets) >= MaxHeapAttributeNumber)
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("a release cannot have more than %d groups and aggregates", MaxHeapAttributeNumber),
				 errhint("Ask for some of them in a statement of their own.")));
	tle = makeTargetEntry(copyObject(expr), list_length(context->targets) + 1, pstrdup(name), false);

	if (key)
		tle->ressortgroupref = tle->resno;
	context->targets = lappend(context->targets, tle);
	return tle;
}

/* What the level computes, in terms of the release's columns; aggregates are added to them. */
static Node *
SplitMutator(Node *node, void *arg)
{
	SplitContext *context = arg;
	int			column;

	if (node == NULL)
		return NULL;
	CHECK_FOR_INTERRUPTS();
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
		{
			RefuseSplit(context->refusal, ERRCODE_PRIVID_NO_RULE, "a correlated subquery cannot be used in a release",
						"Put the release into a subquery in FROM, and correlate with its columns.", exprLocation(node));
			return node;
		}
		return expression_tree_mutator(node, SplitMutator, context);
	}
	column = ReleasedColumn(context, node);
	if (column > 0)
		return (Node *) makeVar(1, column, exprType(node), exprTypmod(node), exprCollation(node), 0);
	if (IsA(node, Aggref) && ((Aggref *) node)->agglevelsup == 0)
	{
		(void) AddTarget(context, (Expr *) node, get_func_name(((Aggref *) node)->aggfnoid), false);
		return SplitMutator(node, context);
	}
	if (IsA(node, GroupingFunc))
	{
		RefuseSplit(context->refusal, ERRCODE_PRIVID_NO_RULE, "GROUPING cannot be used in a release", NULL, exprLocation(node));
		return node;
	}
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == 0)
	{
		RefuseSplit(context->refusal, ERRCODE_PRIVID_RAW_ROWS, "a raw column cannot be shown next to an aggregate", NULL,
					((Var *) node)->location);
		return node;
	}
	return expression_tree_mutator(node, SplitMutator, context);
}

/* The release: the raw level's FROM and WHERE, with only keys and aggregates as its columns. */
static Query *
MakeReleaseQuery(Query *query, List *targets)
{
	Query	   *release = makeNode(Query);

	release->commandType = CMD_SELECT;
	release->querySource = query->querySource;
	release->canSetTag = true;
	release->rtable = query->rtable;
	release->jointree = query->jointree;
	release->hasSubLinks = query->hasSubLinks;
	release->hasAggs = query->hasAggs;
	release->targetList = targets;
	release->groupingSets = query->groupingSets;
	return release;
}

/*
 * FROM privid.release() AS release(columns...). The release itself travels in
 * values_lists, which PostgreSQL copies and does not look at in an entry of
 * this kind.
 */
static RangeTblEntry *
MakeReleaseEntry(List *release)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblFunction *function = makeNode(RangeTblFunction);
	Alias	   *eref = makeAlias("release", NIL);
	FuncExpr   *call = makeFuncExpr(ReleaseFunction(), RECORDOID, NIL, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	ListCell   *lc;

	foreach(lc, ReleaseQuery(release)->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		eref->colnames = lappend(eref->colnames, makeString(tle->resname));
		function->funccolnames = lappend(function->funccolnames, makeString(tle->resname));
		function->funccoltypes = lappend_oid(function->funccoltypes, exprType(expr));
		function->funccoltypmods = lappend_int(function->funccoltypmods, exprTypmod(expr));
		function->funccolcollations = lappend_oid(function->funccolcollations, exprCollation(expr));
	}
	call->funcretset = true;
	function->funccolcount = list_length(ReleaseQuery(release)->targetList);
	function->funcexpr = (Node *) call;

	rte->rtekind = RTE_FUNCTION;
	rte->functions = list_make1(function);
	rte->values_lists = release;
	rte->alias = makeAlias("release", NIL);
	rte->eref = eref;
	rte->inFromCl = true;
	return rte;
}

/* The keys of the release, and the aggregates that the level computes with; returns the places of its argmax. */
static List *
SplitLevel(Query *query, SplitContext *context, Node **having)
{
	Expr	   *key = FindArgmaxKey(query, context->refusal);
	List	   *argmax = NIL;
	ListCell   *lc;
	bool		counted = false;

	foreach(lc, query->groupClause)
	{
		TargetEntry *tle = get_sortgroupclause_tle(lfirst_node(SortGroupClause, lc), query->targetList);

		if (ReleasedColumn(context, (Node *) tle->expr) == 0)
			(void) AddTarget(context, tle->expr, tle->resname ? tle->resname : "key", true);
	}
	if (key && ReleasedColumn(context, (Node *) key) == 0)
	{
		TargetEntry *tle = AddTarget(context, key, "argmax", true);

		argmax = list_make2_int(0, tle->resno - 1);
		query->targetList = (List *) ReplaceArgmax((Node *) query->targetList, NULL);
		query->havingQual = ReplaceArgmax(query->havingQual, NULL);
		counted = true;
	}
	else if (AsksForFirst(query))
	{
		argmax = list_make1_int(0);
		for (int i = 0; i < list_length(context->targets); i++)
			argmax = lappend_int(argmax, i);
	}
	query->targetList = (List *) SplitMutator((Node *) query->targetList, context);
	*having = SplitMutator(query->havingQual, context);
	query->windowClause = (List *) SplitMutator((Node *) query->windowClause, context);
	if (counted)
		(void) AddTarget(context, (Expr *) MakeCountStar(), "count", false);
	return argmax;
}

/*
 * Turn a raw aggregating level into ordinary SQL over a release, which is
 * returned: its query and its argmax. NIL if it cannot be one; then *refusal
 * says why, and the level must not be used any more.
 */
List *
DetachRelease(Query *query, Refusal *refusal)
{
	SplitContext context = {NIL, 0, refusal};
	List	   *argmax;
	List	   *release;
	Node	   *having;
	RangeTblRef *ref = makeNode(RangeTblRef);

	if (query->commandType != CMD_SELECT)
		RefuseSplit(refusal, ERRCODE_PRIVID_RAW_ROWS, "a statement that changes data cannot read raw rows", NULL, -1);
	argmax = SplitLevel(query, &context, &having);
	if (context.targets == NIL)
		RefuseSplit(refusal, ERRCODE_PRIVID_NO_RULE, "a release needs an aggregate or a group", NULL, -1);
	if (refusal->message)
		return NIL;

	release = list_make2(MakeReleaseQuery(query, context.targets), argmax);
	ref->rtindex = 1;
	query->rtable = list_make1(MakeReleaseEntry(release));
	query->jointree = makeFromExpr(list_make1(ref), having);
	query->havingQual = NULL;
	query->groupClause = NIL;
	query->groupingSets = NIL;
	query->hasAggs = false;
	query->rowMarks = NIL;
	/* OFFSET 0 keeps the level from being merged with the one above, which may want a row of it as a whole (MERGE, UPDATE FROM) */
	if (query->limitOffset == NULL)
		query->limitOffset = (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0), false, FLOAT8PASSBYVAL);
	return release;
}
