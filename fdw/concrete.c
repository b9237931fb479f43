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
#include "parser/parse_coerce.h"
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
		return (Node *) query_tree_mutator((Query *) node, TotalMutator, context, 0);
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
	if (call && call->total)
	{
		Oid			types[4];
		int			n = 0;
		ListCell   *lc;

		foreach(lc, args)
			types[n++] = exprType(lfirst(lc));
		return (Node *) makeFuncExpr(PrividFunction(call->total, n, types), result, args,
									 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	}
	return node;
}

Query *
MakeTotal(Query *query)
{
	return (Query *) TotalMutator((Node *) query, NULL);
}
