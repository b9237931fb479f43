/*
 * forms.c: forms that people write, as others that say the same.
 *
 * (SELECT x) without FROM is x. generate_series of constants is a list of
 * VALUES. x IN (SELECT y FROM ...) among the conditions of WHERE is a join with
 * SELECT DISTINCT y FROM ...: a row finds one row there, or none; so is
 * EXISTS (SELECT ... WHERE outer = inner AND ...). What is not exactly of that
 * form is left as it was, and refused where it is serialised.
 */
#include "writer.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_clause.h"
#include "parser/parse_oper.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* ------------------------------------------------------------------ subqueries without FROM */

/* Has a query nothing but columns, FROM and WHERE? */
static bool
IsBare(Query *query)
{
	return query->commandType == CMD_SELECT && !query->hasAggs && !query->hasWindowFuncs && !query->hasTargetSRFs &&
		query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == NULL && query->cteList == NIL &&
		query->setOperations == NULL && query->distinctClause == NIL && query->limitCount == NULL &&
		query->limitOffset == NULL && query->rowMarks == NIL;
}

/* Is a query no more than one column of what stands there? */
static bool
IsPlain(Query *query)
{
	return IsBare(query) && query->rtable == NIL && query->jointree->fromlist == NIL && query->jointree->quals == NULL &&
		list_length(query->targetList) == 1;
}

/* Subqueries without FROM as the expressions that they are. */
static Node *
PlainMutator(Node *node, void *context)
{
	check_stack_depth();
	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
		return (Node *) query_tree_mutator((Query *) node, PlainMutator, context, 0);
	if (IsA(node, SubLink) && ((SubLink *) node)->subLinkType == EXPR_SUBLINK && IsPlain((Query *) ((SubLink *) node)->subselect))
	{
		Query	   *query = (Query *) ((SubLink *) node)->subselect;
		Node	   *expr = copyObject((Node *) linitial_node(TargetEntry, query->targetList)->expr);

		/* it stands one level further up now */
		IncrementVarSublevelsUp(expr, -1, 1);
		return PlainMutator(expr, context);
	}
	return expression_tree_mutator(node, PlainMutator, context);
}

/* ------------------------------------------------------------------ generate_series */

/* Is it one of those that list whole numbers or moments? */
static bool
IsSeries(Oid funcid)
{
	switch (funcid)
	{
		case F_GENERATE_SERIES_TIMESTAMPTZ_TIMESTAMPTZ_INTERVAL:
		case F_GENERATE_SERIES_TIMESTAMP_TIMESTAMP_INTERVAL:
		case F_GENERATE_SERIES_INT4_INT4:
		case F_GENERATE_SERIES_INT8_INT8:
		case F_GENERATE_SERIES_INT4_INT4_INT4:
		case F_GENERATE_SERIES_INT8_INT8_INT8:
			return true;
		default:
			return false;
	}
}

/* The rows of generate_series of constants, each a list of one; NIL if they are too many, or none. */
static List *
SeriesOf(FuncExpr *call)
{
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
	FmgrInfo	function;
	ReturnSetInfo more = {.type = T_ReturnSetInfo,.allowedModes = SFRM_ValuePerCall};
	List	   *rows = NIL;
	int16		length;
	bool		byval;
	ListCell   *lc;

	if (!IsSeries(call->funcid))
		return NIL;
	fmgr_info(call->funcid, &function);
	more.econtext = CreateStandaloneExprContext();
	InitFunctionCallInfoData(*fcinfo, &function, list_length(call->args), InvalidOid, NULL, (Node *) &more);
	foreach(lc, call->args)
	{
		if (!IsA(lfirst(lc), Const) || lfirst_node(Const, lc)->constisnull)
			return NIL;
		fcinfo->args[foreach_current_index(lc)].value = lfirst_node(Const, lc)->constvalue;
		fcinfo->args[foreach_current_index(lc)].isnull = false;
	}
	get_typlenbyval(call->funcresulttype, &length, &byval);
	for (;;)
	{
		Datum		value = FunctionCallInvoke(fcinfo);

		CHECK_FOR_INTERRUPTS();
		if (more.isDone != ExprMultipleResult)
			return rows;
		if (list_length(rows) == MAX_PUBLIC_ROWS)
			return NIL;
		rows = lappend(rows, list_make1(makeConst(call->funcresulttype, -1, InvalidOid, length, value, false, byval)));
	}
}

/* Series in FROM as VALUES, here and in all levels below; constants are folded already. */
bool
ListSeries(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;
		RangeTblFunction *function = rte->rtekind == RTE_FUNCTION && list_length(rte->functions) == 1
			? linitial_node(RangeTblFunction, rte->functions) : NULL;
		List	   *rows = function && !rte->funcordinality && !rte->lateral && IsA(function->funcexpr, FuncExpr)
			? SeriesOf((FuncExpr *) function->funcexpr) : NIL;

		if (rows != NIL)
		{
			Const	   *first = linitial_node(Const, linitial_node(List, rows));

			rte->rtekind = RTE_VALUES;
			rte->values_lists = rows;
			rte->functions = NIL;
			rte->coltypes = list_make1_oid(first->consttype);
			rte->coltypmods = list_make1_int(-1);
			rte->colcollations = list_make1_oid(InvalidOid);
		}
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, ListSeries, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, ListSeries, context);
}

/* ------------------------------------------------------------------ semi-joins */

/* A query in FROM of another; what the parser makes of it there. */
static ParseNamespaceItem *
AddSource(ParseState *pstate, Query *query, Query *source)
{
	RangeTblRef *ref = makeNode(RangeTblRef);
	ParseNamespaceItem *item;

	pstate->p_rtable = query->rtable;
	item = addRangeTableEntryForSubquery(pstate, source, makeAlias("sought", NIL), false, true);
	query->rtable = pstate->p_rtable;
	ref->rtindex = item->p_rtindex;
	query->jointree->fromlist = lappend(query->jointree->fromlist, ref);
	return item;
}

/* SELECT DISTINCT of all columns of a query. */
static Query *
MakeDistinct(Query *query)
{
	ParseState *pstate = make_parsestate(NULL);
	Query	   *outer = makeNode(Query);

	outer->commandType = CMD_SELECT;
	outer->canSetTag = true;
	outer->jointree = makeFromExpr(NIL, NULL);
	outer->targetList = expandNSItemAttrs(pstate, AddSource(pstate, outer, query), 0, false, -1);
	outer->distinctClause = transformDistinctClause(pstate, &outer->targetList, NIL, false);
	return outer;
}

/* Is this the equality by which values of its left type are grouped, so that DISTINCT leaves no two that it equates? */
static bool
IsGroupEquality(OpExpr *op)
{
	Oid			equality;
	char	   *identity;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || !FindAllowedOperator(op->opno, &identity))
		return false;
	if (exprType(linitial(op->args)) != exprType(lsecond(op->args)))
		return false;
	get_sort_group_operators(exprType(lsecond(op->args)), false, false, false, NULL, &equality, NULL, NULL);
	return OidIsValid(equality) && get_opcode(equality) == get_opcode(op->opno);
}

/* x IN (SELECT y ...), the subquery knowing nothing of this level: the condition x = y of a join, or NULL */
static Node *
JoinIn(Query *query, SubLink *link)
{
	OpExpr	   *test = (OpExpr *) link->testexpr;
	Query	   *below = (Query *) link->subselect;
	Param	   *sought;
	TargetEntry *tle;

	if (link->subLinkType != ANY_SUBLINK || test == NULL || !IsA(test, OpExpr) || list_length(test->args) != 2 ||
		!IsA(lsecond(test->args), Param) || !IsGroupEquality(test) || contain_vars_of_level((Node *) below, 1) ||
		contain_subplans(linitial(test->args)))
		return NULL;
	sought = lsecond_node(Param, test->args);
	if (sought->paramkind != PARAM_SUBLINK || sought->paramid != 1)
		return NULL;
	below = MakeDistinct(below);
	tle = linitial_node(TargetEntry, below->targetList);
	if (list_length(below->targetList) != 1)
		return NULL;
	test = copyObject(test);
	lsecond(test->args) = makeVarFromTargetEntry(AddSource(make_parsestate(NULL), query, below)->p_rtindex, tle);
	return (Node *) test;
}

/* How many conditions of an EXISTS may name both levels; PostgreSQL compares each column that is sought with all others. */
#define MAX_SOUGHT 100

/* outer = inner, in this order, of a condition between the two levels; NULL if it is none */
static OpExpr *
Correlation(Node *condition)
{
	OpExpr	   *op = copyObject((OpExpr *) condition);

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || !IsGroupEquality(op))
		return NULL;
	if (contain_vars_of_level(linitial(op->args), 0))
		op->args = list_make2(lsecond(op->args), linitial(op->args));
	if (contain_vars_of_level(linitial(op->args), 0) || contain_vars_of_level(lsecond(op->args), 1) ||
		!contain_vars_of_level(linitial(op->args), 1) || !contain_vars_of_level(lsecond(op->args), 0) ||
		contain_subplans((Node *) op))
		return NULL;
	return op;
}

/* EXISTS (SELECT ... WHERE outer = inner AND ...): the conditions of a join with the distinct values of inner, or NULL */
static Node *
JoinExists(Query *query, SubLink *link)
{
	Query	   *below = copyObject((Query *) link->subselect);
	List	   *kept = NIL,
			   *pairs = NIL;
	ListCell   *lc;
	int			rel;

	/* what it selects does not matter */
	if (link->subLinkType != EXISTS_SUBLINK || !IsBare(below) || below->jointree->fromlist == NIL)
		return NULL;
	below->targetList = NIL;
	foreach(lc, make_ands_implicit((Expr *) below->jointree->quals))
	{
		OpExpr	   *pair = Correlation(lfirst(lc));

		CHECK_FOR_INTERRUPTS();
		if (pair == NULL)
		{
			kept = lappend(kept, lfirst(lc));
			continue;
		}
		if (list_length(pairs) == MAX_SOUGHT)
			return NULL;
		pairs = lappend(pairs, pair);
		below->targetList = lappend(below->targetList, makeTargetEntry(lsecond(pair->args), list_length(pairs), "sought", false));
	}
	below->jointree->quals = kept == NIL ? NULL : (Node *) make_ands_explicit(kept);
	if (pairs == NIL || contain_vars_of_level((Node *) below, 1))
		return NULL;
	below = MakeDistinct(below);
	rel = AddSource(make_parsestate(NULL), query, below)->p_rtindex;
	foreach(lc, pairs)
	{
		OpExpr	   *pair = lfirst_node(OpExpr, lc);

		IncrementVarSublevelsUp(linitial(pair->args), -1, 1);
		lsecond(pair->args) = makeVarFromTargetEntry(rel, list_nth_node(TargetEntry, below->targetList, foreach_current_index(lc)));
	}
	return (Node *) make_ands_explicit(pairs);
}

/* The conditions of a level with its semi-joins as joins. */
static void
JoinSought(Query *query)
{
	List	   *found = NIL;
	ListCell   *lc;

	if (query->jointree == NULL || !query->hasSubLinks)
		return;
	foreach(lc, make_ands_implicit((Expr *) query->jointree->quals))
	{
		Node	   *condition = lfirst(lc);
		Node	   *joined = NULL;

		if (IsA(condition, SubLink))
			joined = ((SubLink *) condition)->subLinkType == ANY_SUBLINK ? JoinIn(query, (SubLink *) condition)
				: JoinExists(query, (SubLink *) condition);
		found = lappend(found, joined ? joined : condition);
	}
	query->jointree->quals = found == NIL ? NULL : (Node *) make_ands_explicit(found);
}

/* The same for every level. */
static bool
SoughtWalker(Node *node, void *context)
{
	check_stack_depth();
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		JoinSought((Query *) node);
		return query_tree_walker((Query *) node, SoughtWalker, context, 0);
	}
	return expression_tree_walker(node, SoughtWalker, context);
}

/* A release in plainer words. */
Query *
MakePlain(Query *query)
{
	query = (Query *) PlainMutator((Node *) query, NULL);
	(void) SoughtWalker((Node *) query, NULL);
	return query;
}
