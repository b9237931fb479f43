/*
 * guard.c: nothing is evaluated on raw values that was not written for the engine.
 *
 * The serialiser writes what it knows of, and what it does not know of it
 * refuses. But PostgreSQL's trees have corners (an ORDER BY inside an
 * aggregate, a column that only sorts), and a corner that is evaluated without
 * being written would run code of an analyst's choosing on raw values. So the
 * whole tree is walked once more, by PostgreSQL's own walkers, which visit
 * everything that is evaluated: each call must be in the list, each node of a
 * kind that expressions.c knows.
 */
#include "writer.h"

#include "access/htup_details.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

static bool
IsBuiltinOperator(Oid opno)
{
	HeapTuple	tuple;
	bool		builtin;

	if (!OidIsValid(opno))
		return true;
	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));
	builtin = HeapTupleIsValid(tuple) && ((Form_pg_operator) GETSTRUCT(tuple))->oprnamespace == PG_CATALOG_NAMESPACE;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return builtin;
}

/* Is this node one that may be evaluated, as far as it goes itself? */
static bool
IsKnown(Node *node)
{
	char	   *identity;

	switch (nodeTag(node))
	{
		case T_FuncExpr:
			return FindAllowedFunction(((FuncExpr *) node)->funcid, &identity) != NULL;
		case T_OpExpr:
		case T_NullIfExpr:
		case T_DistinctExpr:
			return FindAllowedOperator(((OpExpr *) node)->opno, &identity) != NULL;
		case T_ScalarArrayOpExpr:
			return FindAllowedOperator(((ScalarArrayOpExpr *) node)->opno, &identity) != NULL;
		case T_CoerceViaIO:
			return FindAllowedCast(exprType((Node *) ((CoerceViaIO *) node)->arg), ((CoerceViaIO *) node)->resulttype,
								   &identity) != NULL;
		case T_Aggref:
			return FindAllowedAggregate(((Aggref *) node)->aggfnoid, &identity) != NULL &&
				((Aggref *) node)->aggorder == NIL && ((Aggref *) node)->aggdirectargs == NIL;
		case T_SortGroupClause:
			return IsBuiltinOperator(((SortGroupClause *) node)->eqop) && IsBuiltinOperator(((SortGroupClause *) node)->sortop);
		case T_RangeTblEntry:
			switch (((RangeTblEntry *) node)->rtekind)
			{
				case RTE_FUNCTION:
				case RTE_TABLEFUNC:
				case RTE_CTE:
					return false;
				default:
					return ((RangeTblEntry *) node)->tablesample == NULL && ((RangeTblEntry *) node)->securityQuals == NIL;
			}
		case T_List:
		case T_TargetEntry:
		case T_FromExpr:
		case T_JoinExpr:
		case T_RangeTblRef:
		case T_SetOperationStmt:
		case T_Var:
		case T_Const:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_RelabelType:
			return true;
		default:
			return false;
	}
}

static bool
GuardWalker(Node *node, void *arg)
{
	Writer	   *w = arg;

	if (node == NULL)
		return false;
	check_stack_depth();
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		List	   *clauses[] = {query->groupClause, query->sortClause, query->distinctClause};
		ListCell   *lc;

		for (int i = 0; i < lengthof(clauses); i++)
			foreach(lc, clauses[i])
				if (!IsKnown(lfirst(lc)))
				Refuse(w, -1, "an operator that is not built in", NULL);
		return query_tree_walker(query, GuardWalker, w, QTW_EXAMINE_RTES_BEFORE);
	}
	if (!IsKnown(node))
		Refuse(w, exprLocation(node), IsA(node, Aggref) ? "ORDER BY in an aggregate" : "this expression", NULL);
	if (IsA(node, RangeTblEntry))
		return false;			/* its parts are visited by the walker of its query */
	return expression_tree_walker(node, GuardWalker, w);
}

/* Refuse a release of which any part that would be evaluated is not known. */
void
GuardRelease(Query *release, const char *source)
{
	Writer		w = {.source = source};

	GuardWalker((Node *) release, &w);
}
