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
#include "common/int.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

/* ------------------------------------------------------------------ subqueries without FROM */

/* Is a query no more than one column of what stands there? */
static bool
IsPlain(Query *query)
{
	return query->commandType == CMD_SELECT && query->rtable == NIL && query->jointree->fromlist == NIL &&
		query->jointree->quals == NULL && !query->hasAggs && !query->hasWindowFuncs && !query->hasTargetSRFs &&
		query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == NULL && query->cteList == NIL &&
		query->setOperations == NULL && query->distinctClause == NIL && query->limitCount == NULL &&
		query->limitOffset == NULL && query->rowMarks == NIL && list_length(query->targetList) == 1;
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

/* One row of VALUES. */
static List *
MakeRow(Oid type, Datum value)
{
	int16		length;
	bool		byval;

	get_typlenbyval(type, &length, &byval);
	return list_make1(makeConst(type, -1, InvalidOid, length, value, false, byval));
}

/* The moments of a series; NIL if they are too many, or none. */
static List *
Moments(Oid type, Timestamp moment, Timestamp last, Datum step)
{
	Interval	nothing = {0};
	int			sign = DatumGetInt32(DirectFunctionCall2(interval_cmp, step, IntervalPGetDatum(&nothing)));
	List	   *rows = NIL;

	while (sign != 0 && (sign > 0 ? moment <= last : moment >= last))
	{
		CHECK_FOR_INTERRUPTS();
		if (list_length(rows) == MAX_PUBLIC_ROWS)
			return NIL;
		rows = lappend(rows, MakeRow(type, TimestampGetDatum(moment)));
		moment = DatumGetTimestamp(type == TIMESTAMPTZOID
								   ? DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(moment), step)
								   : DirectFunctionCall2(timestamp_pl_interval, TimestampGetDatum(moment), step));
	}
	return rows;
}

/* The whole numbers of a series. */
static List *
Numbers(Oid type, int64 number, int64 last, int64 step)
{
	List	   *rows = NIL;

	/* counted from the beginning, so that nothing overflows */
	while (step != 0 && (step > 0 ? number <= last : number >= last))
	{
		CHECK_FOR_INTERRUPTS();
		if (list_length(rows) == MAX_PUBLIC_ROWS)
			return NIL;
		rows = lappend(rows, MakeRow(type, type == INT4OID ? Int32GetDatum((int32) number) : Int64GetDatum(number)));
		if (pg_add_s64_overflow(number, step, &number))
			break;
	}
	return rows;
}

/* Of a constant that is a whole number. */
static int64
WholeOf(List *args, int place, Oid type)
{
	Datum		value = list_nth_node(Const, args, place)->constvalue;

	return type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
}

/* The rows of generate_series of constants, or NIL. */
static List *
SeriesOf(FuncExpr *call)
{
	Oid			type = call->funcresulttype;
	ListCell   *lc;

	foreach(lc, call->args)
		if (!IsA(lfirst(lc), Const) || lfirst_node(Const, lc)->constisnull)
		return NIL;
	switch (call->funcid)
	{
		case F_GENERATE_SERIES_TIMESTAMPTZ_TIMESTAMPTZ_INTERVAL:
		case F_GENERATE_SERIES_TIMESTAMP_TIMESTAMP_INTERVAL:
			return Moments(type, DatumGetTimestamp(linitial_node(Const, call->args)->constvalue),
						   DatumGetTimestamp(lsecond_node(Const, call->args)->constvalue),
						   lthird_node(Const, call->args)->constvalue);
		case F_GENERATE_SERIES_INT4_INT4:
		case F_GENERATE_SERIES_INT8_INT8:
			return Numbers(type, WholeOf(call->args, 0, type), WholeOf(call->args, 1, type), 1);
		case F_GENERATE_SERIES_INT4_INT4_INT4:
		case F_GENERATE_SERIES_INT8_INT8_INT8:
			return Numbers(type, WholeOf(call->args, 0, type), WholeOf(call->args, 1, type), WholeOf(call->args, 2, type));
		default:
			return NIL;
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

/* SELECT DISTINCT of all columns of a query. */
static Query *
MakeDistinct(Query *query)
{
	Query	   *outer = makeNode(Query);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	ListCell   *lc;

	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = query;
	rte->eref = makeAlias("sought", NIL);
	rte->inFromCl = true;
	ref->rtindex = 1;
	outer->commandType = CMD_SELECT;
	outer->canSetTag = true;
	outer->rtable = list_make1(rte);
	outer->jointree = makeFromExpr(list_make1(ref), NULL);
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		SortGroupClause *clause = makeNode(SortGroupClause);
		Var		   *var;

		if (tle->resjunk)
			continue;
		var = makeVarFromTargetEntry(1, tle);
		rte->eref->colnames = lappend(rte->eref->colnames, makeString(pstrdup(tle->resname ? tle->resname : "sought")));
		clause->tleSortGroupRef = list_length(outer->targetList) + 1;
		get_sort_group_operators(exprType((Node *) var), false, true, false, &clause->sortop, &clause->eqop, NULL,
								 &clause->hashable);
		outer->targetList = lappend(outer->targetList, makeTargetEntry((Expr *) var, clause->tleSortGroupRef,
																	   pstrdup(tle->resname ? tle->resname : "sought"), false));
		llast_node(TargetEntry, outer->targetList)->ressortgroupref = clause->tleSortGroupRef;
		outer->distinctClause = lappend(outer->distinctClause, clause);
	}
	return outer;
}

/* A query in FROM of another; its number there. */
static int
AddSource(Query *query, Query *source)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	ListCell   *lc;

	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = source;
	rte->eref = makeAlias("sought", NIL);
	foreach(lc, source->targetList)
		rte->eref->colnames = lappend(rte->eref->colnames, makeString(lfirst_node(TargetEntry, lc)->resname));
	rte->inFromCl = true;
	query->rtable = lappend(query->rtable, rte);
	ref->rtindex = list_length(query->rtable);
	query->jointree->fromlist = lappend(query->jointree->fromlist, ref);
	return ref->rtindex;
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
	lsecond(test->args) = makeVarFromTargetEntry(AddSource(query, below), tle);
	return (Node *) test;
}

/* Has the subquery of an EXISTS nothing but FROM and WHERE? What it selects does not matter. */
static bool
IsSearch(Query *query)
{
	return query->commandType == CMD_SELECT && query->jointree->fromlist != NIL && !query->hasAggs && !query->hasWindowFuncs &&
		!query->hasTargetSRFs && query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == NULL &&
		query->cteList == NIL && query->setOperations == NULL && query->distinctClause == NIL && query->limitCount == NULL &&
		query->limitOffset == NULL && query->rowMarks == NIL;
}

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

	if (link->subLinkType != EXISTS_SUBLINK || !IsSearch(below))
		return NULL;
	below->targetList = NIL;
	foreach(lc, make_ands_implicit((Expr *) below->jointree->quals))
	{
		OpExpr	   *pair = Correlation(lfirst(lc));

		if (pair == NULL)
		{
			kept = lappend(kept, lfirst(lc));
			continue;
		}
		pairs = lappend(pairs, pair);
		below->targetList = lappend(below->targetList, makeTargetEntry(lsecond(pair->args), list_length(pairs), "sought", false));
	}
	below->jointree->quals = kept == NIL ? NULL : (Node *) make_ands_explicit(kept);
	if (pairs == NIL || contain_vars_of_level((Node *) below, 1))
		return NULL;
	below = MakeDistinct(below);
	rel = AddSource(query, below);
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
