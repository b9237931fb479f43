/*
 * argmax.c: questions for the group with the largest value.
 *
 * Two ways to ask: privid.argmax(key), and SELECT key ... GROUP BY key ORDER BY
 * count(*) DESC LIMIT 1. Both say that only the winner is wanted, not its
 * value, which a mechanism of its own answers better than noise on every group.
 */
#include "privid.h"

#include "catalog/pg_aggregate.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* Gather the aggregates of a level. */
static bool
CollectAggregates(Node *node, void *arg)
{
	List	  **found = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		*found = lappend(*found, node);
		return false;
	}
	return expression_tree_walker(node, CollectAggregates, found);
}

/* Is it privid.argmax, and really ours? */
static bool
IsArgmax(Aggref *agg)
{
	char	   *identity;

	(void) FindAllowedAggregate(agg->aggfnoid, &identity);
	return strcmp(identity, "privid.argmax(anycompatible)") == 0 && IsOurs(agg->aggfnoid);
}

/* The argument of the level's privid.argmax, which must be its only aggregate; NULL if there is none, or *refusal. */
Expr *
FindArgmaxKey(Query *query, Refusal *refusal)
{
	List	   *found = NIL;
	ListCell   *lc;
	Aggref	   *argmax = NULL;
	bool		alone = true;

	CollectAggregates((Node *) query->targetList, &found);
	CollectAggregates(query->havingQual, &found);
	foreach(lc, found)
		if (IsArgmax(lfirst_node(Aggref, lc)))
			argmax = lfirst_node(Aggref, lc);
	if (argmax == NULL)
		return NULL;
	foreach(lc, found)
		alone = alone && equal(lfirst(lc), argmax);
	if (!alone || argmax->aggfilter || argmax->aggdistinct || argmax->aggorder)
	{
		*refusal = (Refusal)
		{
			.sqlstate = ERRCODE_PRIVID_NO_RULE,
				.message = "privid.argmax cannot stand beside another aggregate, nor have a filter or an order",
				.hint = "Ask for the other aggregate in a query of its own; filter with WHERE.",
				.location = argmax->location
		};
		return NULL;
	}
	return linitial_node(TargetEntry, argmax->args)->expr;
}

/* privid.argmax(key) is, after grouping, its key. */
Node *
ReplaceArgmax(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref) && IsArgmax((Aggref *) node))
		return (Node *) copyObject(linitial_node(TargetEntry, ((Aggref *) node)->args)->expr);
	return expression_tree_mutator(node, ReplaceArgmax, context);
}

/* count(*) */
Aggref *
MakeCountStar(void)
{
	Aggref	   *agg = makeNode(Aggref);

	agg->aggfnoid = F_COUNT_;
	agg->aggtype = INT8OID;
	agg->aggstar = true;
	agg->aggkind = AGGKIND_NORMAL;
	agg->aggsplit = AGGSPLIT_SIMPLE;
	agg->aggno = -1;
	agg->aggtransno = -1;
	agg->location = -1;
	return agg;
}

/*
 * GROUP BY keys ORDER BY aggregate DESC LIMIT 1, where the aggregate is the
 * level's only one and is not shown.
 */
bool
AsksForFirst(Query *query)
{
	List	   *found = NIL;
	SortGroupClause *sort;
	TargetEntry *tle;
	Oid			family,
				type;
	int16		strategy;
	Const	   *limit = (Const *) FoldConstants(query->limitCount);
	ListCell   *lc;

	if (query->groupClause == NIL || query->sortClause == NIL || query->havingQual || query->distinctClause ||
		query->hasWindowFuncs || query->limitOffset || limit == NULL || !IsA(limit, Const) || limit->constisnull ||
		limit->consttype != INT8OID || DatumGetInt64(limit->constvalue) != 1 ||
		query->limitOption == LIMIT_OPTION_WITH_TIES)
		return false;
	sort = linitial_node(SortGroupClause, query->sortClause);
	tle = get_sortgroupclause_tle(sort, query->targetList);
	if (!tle->resjunk || !IsA(tle->expr, Aggref) ||
		!get_ordering_op_properties(sort->sortop, &family, &type, &strategy) || strategy != BTGreaterStrategyNumber)
		return false;
	foreach(lc, query->targetList)
		if (lfirst(lc) != tle)
			CollectAggregates((Node *) lfirst_node(TargetEntry, lc)->expr, &found);
	return found == NIL;
}
