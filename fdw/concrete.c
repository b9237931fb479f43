/*
 * concrete.c: a release with its parameters filled in, and with total calls.
 *
 * MakeConcrete runs before anything is decided: parameters and expressions
 * without columns become constants, simple SQL functions are opened, so that
 * what the engine judges is what will be evaluated. MakeTotal runs last: calls
 * that could raise on some value of a program are exchanged for ones that
 * yield NULL instead.
 */
#include "privid.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_oper.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* Nodes that hold expressions rather than being one. */
static bool
IsStructure(Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_TargetEntry:
		case T_FromExpr:
		case T_JoinExpr:
		case T_RangeTblRef:
		case T_RangeTblFunction:
		case T_SortGroupClause:
		case T_GroupingSet:
		case T_WindowClause:
		case T_CommonTableExpr:
		case T_SetOperationStmt:
		case T_TableSampleClause:
			return true;
		default:
			return false;
	}
}

/*
 * Fold every expression of a query and of its subqueries. Folding in
 * "estimate" mode also takes stable functions (now(), time zones) and
 * parameters: the value they have in this execution is the one that counts.
 */
static Node *
FoldMutator(Node *node, void *root)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
	{
		Query	   *query = query_tree_mutator((Query *) node, FoldMutator, root, 0);

		query->targetList = (List *) flatten_join_alias_vars(query, (Node *) query->targetList);
		if (query->jointree)
			query->jointree = (FromExpr *) flatten_join_alias_vars(query, (Node *) query->jointree);
		return (Node *) query;
	}
	if (IsStructure(node))
		return expression_tree_mutator(node, FoldMutator, root);
	return estimate_expression_value((PlannerInfo *) root, node);
}

Query *
MakeConcrete(Query *query, ParamListInfo params)
{
	PlannerGlobal *glob = makeNode(PlannerGlobal);
	PlannerInfo *root = makeNode(PlannerInfo);

	glob->boundParams = params;
	root->glob = glob;
	root->parse = query;
	return (Query *) FoldMutator((Node *) query, root);
}

/* GROUP BY or ORDER BY a target, as PostgreSQL does by default for its type. */
SortGroupClause *
MakeSortGroup(TargetEntry *tle, List *targets)
{
	SortGroupClause *clause = makeNode(SortGroupClause);
	Oid			greater;

	get_sort_group_operators(exprType((Node *) tle->expr), true, true, false,
							 &clause->sortop, &clause->eqop, &greater, &clause->hashable);
	clause->tleSortGroupRef = assignSortGroupRef(tle, targets);
	return clause;
}

/*
 * Which rows a LIMIT keeps must be a matter of the rows' contents, never of
 * the order in which they happen to come: after what the level orders by, it
 * orders by all its columns.
 */
static void
OrderTotally(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!tle->resjunk && !targetIsInSortList(tle, InvalidOid, query->sortClause))
			query->sortClause = lappend(query->sortClause, MakeSortGroup(tle, query->targetList));
	}
}

static Node *
TotalMutator(Node *node, void *context)
{
	const AllowedCall *call = NULL;
	List	   *args = NIL;
	Oid			result = InvalidOid;
	char	   *identity;

	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
	{
		Query	   *query = query_tree_mutator((Query *) node, TotalMutator, context, 0);

		if (query->limitCount || query->limitOffset)
			OrderTotally(query);
		return (Node *) query;
	}
	node = expression_tree_mutator(node, TotalMutator, context);
	if (IsA(node, OpExpr))
	{
		call = FindAllowedOperator(((OpExpr *) node)->opno, &identity);
		args = ((OpExpr *) node)->args;
		result = ((OpExpr *) node)->opresulttype;
	}
	else if (IsA(node, FuncExpr))
	{
		call = FindAllowedFunction(((FuncExpr *) node)->funcid, &identity);
		args = ((FuncExpr *) node)->args;
		result = ((FuncExpr *) node)->funcresulttype;
	}
	else if (IsA(node, CoerceViaIO))
	{
		call = FindAllowedCast(exprType((Node *) ((CoerceViaIO *) node)->arg), ((CoerceViaIO *) node)->resulttype, &identity);
		args = list_make1(((CoerceViaIO *) node)->arg);
		result = ((CoerceViaIO *) node)->resulttype;
	}
	if (call && call->total)
	{
		Oid			types[4];
		int			n = 0;
		ListCell   *lc;

		foreach(lc, args)
			types[n++] = exprType(lfirst(lc));
		return (Node *) makeFuncExpr(PrividFunction(call->total, n, types), result, args,
									 exprCollation(node), exprInputCollation(node), COERCE_EXPLICIT_CALL);
	}
	return node;
}

Query *
MakeTotal(Query *query)
{
	return (Query *) TotalMutator((Node *) query, NULL);
}

/* ------------------------------------------------------------------ what to collect */

/* sum, count or sum of squares of an aggregate's argument, in the place of the aggregate */
static Expr *
MakeCollected(Aggref *agg, const char *as, char *low, char *high)
{
	Aggref	   *collected = copyObject(agg);
	TargetEntry *tle;
	Expr	   *arg;
	bool		counts = strcmp(as, "count") == 0;

	if (list_length(agg->args) != 1 || agg->aggdistinct)
		elog(ERROR, "the engine asked for parts of an aggregate that has none");
	tle = linitial_node(TargetEntry, collected->args);
	arg = tle->expr;
	if (low && high)
	{
		Oid			types[3] = {FLOAT8OID, FLOAT8OID, FLOAT8OID};
		Node	   *number = coerce_to_target_type(NULL, (Node *) arg, exprType((Node *) arg), FLOAT8OID, -1,
												   COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
		Datum		bounds[2];

		if (number == NULL)
			elog(ERROR, "the engine asked for the range of what is no number");
		bounds[0] = DirectFunctionCall1(float8in, CStringGetDatum(low));
		bounds[1] = DirectFunctionCall1(float8in, CStringGetDatum(high));
		arg = (Expr *) makeFuncExpr(PrividFunction("range", 3, types), NUMERICOID,
									list_make3(number,
											   makeConst(FLOAT8OID, -1, InvalidOid, 8, bounds[0], false, FLOAT8PASSBYVAL),
											   makeConst(FLOAT8OID, -1, InvalidOid, 8, bounds[1], false, FLOAT8PASSBYVAL)),
									InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	}
	if (!counts)
		arg = (Expr *) coerce_to_target_type(NULL, (Node *) arg, exprType((Node *) arg), NUMERICOID, -1,
											 COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
	if (strcmp(as, "squares") == 0)
	{
		Oid			types[2] = {NUMERICOID, NUMERICOID};

		arg = (Expr *) makeFuncExpr(PrividFunction("total_mul", 2, types), NUMERICOID,
									list_make2(arg, copyObject(arg)), InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	}
	else if (!counts && strcmp(as, "sum") != 0)
		elog(ERROR, "the engine asked for an unknown part of an aggregate");
	tle->expr = arg;
	tle->ressortgroupref = 0;
	collected->args = list_make1(tle);
	collected->aggorder = NIL;
	collected->aggfnoid = counts ? F_COUNT_ANY : F_SUM_NUMERIC;
	collected->aggtype = counts ? INT8OID : NUMERICOID;
	collected->aggtranstype = InvalidOid;
	collected->aggargtypes = list_make1_oid(exprType((Node *) arg));
	collected->aggcollid = InvalidOid;
	collected->inputcollid = InvalidOid;
	return (Expr *) collected;
}

/*
 * The release with the columns that its mechanisms need: its keys, then what
 * the engine asked for ("columns" of its answer; without it, the aggregates).
 */
Query *
MakeCollecting(Query *concrete, text *columns)
{
	Query	   *query = copyObject(concrete);
	List	   *targets = NIL,
			   *aggs = NIL;
	ListCell   *lc;
	char	   *element;

	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->ressortgroupref)
			targets = lappend(targets, tle);
		else
			aggs = lappend(aggs, tle->expr);
	}
	if (columns == NULL)
		return query;
	query->hasAggs = false;
	for (int i = 0; (element = JsonElementString(columns, i)) != NULL; i++)
	{
		text	   *column = cstring_to_text(element);
		int			number = JsonFieldInt(column, "agg", -1);
		char	   *as = JsonFieldString(column, "as");
		char	   *low = JsonFieldString(column, "low");
		Expr	   *expr;

		if (number < 0 || number >= list_length(aggs) || as == NULL)
			elog(ERROR, "the engine asked for an unknown aggregate");
		if (strcmp(as, "value") == 0)
			expr = copyObject(list_nth(aggs, number));
		else
			expr = MakeCollected(list_nth(aggs, number), as, low, JsonFieldString(column, "high"));
		targets = lappend(targets, makeTargetEntry(expr, list_length(targets) + 1, psprintf("c%d", i), false));
		query->hasAggs = true;
	}
	query->targetList = targets;
	return query;
}
