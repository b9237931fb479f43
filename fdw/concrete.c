/*
 * concrete.c: a release with its parameters filled in.
 *
 * Parameters and expressions without columns become constants, and the
 * extension's own SQL functions are opened, so that what the engine judges is
 * what will be evaluated. Only PostgreSQL's and the extension's functions are
 * ever called for that, and of these only the ones that call nobody else's
 * (MayCall): code of an analyst is not evaluated on the way to a release, by
 * whomever it is asked for.
 */
#include "privid.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* For check_functions_in_node: true ends the search, and *identity names what was found. */
static bool
IsNotCallable(Oid funcid, void *identity)
{
	return !MayCall(funcid, identity);
}

/*
 * Is this || of a text and a value of a plain type? It casts the value to text,
 * and a cast from any other type, such as an enum, may be somebody's function.
 */
static bool
IsTextOfPlain(OpExpr *op)
{
	Oid			types[] = {exprType(linitial(op->args)), exprType(llast(op->args))};

	return (get_opcode(op->opno) == F_TEXTANYCAT || get_opcode(op->opno) == F_ANYTEXTCAT) &&
		types[0] < FirstUnpinnedObjectId && types[1] < FirstUnpinnedObjectId && IsPlainType(types[0]) && IsPlainType(types[1]);
}

/* What a node itself calls where it is evaluated, and may not; or NULL. Aggregates never are. */
static const char *
UncallableOf(Node *node)
{
	char	   *identity;

	if (IsA(node, Aggref) || IsA(node, WindowFunc))
		return NULL;
	if (IsA(node, CoerceViaIO))
	{
		Oid			from = exprType((Node *) ((CoerceViaIO *) node)->arg);

		return IsPlainType(from) && IsPlainType(exprType(node)) ? NULL : "this cast";
	}
	if (IsA(node, OpExpr) && IsTextOfPlain((OpExpr *) node))
		return NULL;
	return check_functions_in_node(node, IsNotCallable, &identity) ? psprintf("function %s", identity) : NULL;
}

/*
 * Is a value of a type that somebody defined, such as a domain or a row of one?
 * Reading, writing or casting it may run code: conditions of a domain, casts
 * that functions of PostgreSQL look up. Labels of an enum are harmless.
 */
bool
HasForeignType(Node *node)
{
	Oid			type,
				element;

	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_Aggref:
		case T_WindowFunc:
		case T_SubscriptingRef:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_FieldSelect:
		case T_FieldStore:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseTestExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_CoerceToDomain:
			break;
		default:
			return false;
	}
	type = exprType(node);
	element = get_element_type(type);
	if (OidIsValid(element))
		type = element;
	return type >= FirstUnpinnedObjectId && get_typtype(type) != TYPTYPE_ENUM;
}

/*
 * Is there a function in an expression or a query that may not be called, or a
 * type that may come with code? Then the refusal says so.
 */
bool
FindForeignCode(Node *node, void *arg)
{
	Refusal    *refusal = arg;
	const char *problem;

	if (node == NULL)
		return false;
	problem = UncallableOf(node);
	if (problem)
	{
		*refusal = (Refusal)
		{
			.sqlstate = ERRCODE_PRIVID_NO_RULE,
				.message = psprintf("%s cannot be used in a release", problem),
				.detail = "Only functions of plain values, which call no others, are evaluated there.",
				.hint = "privid.allowed_calls lists what can be used; write other values as constants.",
				.location = exprLocation(node)
		};
		return true;
	}
	if (HasForeignType(node))
	{
		*refusal = (Refusal)
		{
			.sqlstate = ERRCODE_PRIVID_NO_RULE,
				.message = "a type that a user defined cannot be used in a release, unless it is an enum",
				.detail = "Values of a domain or of a composite type may come with code that runs when they are read.",
				.hint = "Use a column of a built-in type.",
				.location = exprLocation(node)
		};
		return true;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, FindForeignCode, refusal, 0);
	return expression_tree_walker(node, FindForeignCode, refusal);
}

/* An expression with its constants folded, or as it is if that would run somebody's code. */
Node *
FoldConstants(Node *node)
{
	Refusal		ignored;

	return FindForeignCode(node, &ignored) ? node : eval_const_expressions(NULL, node);
}

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
		query->havingQual = flatten_join_alias_vars(query, query->havingQual);
		if (query->jointree)
			query->jointree = (FromExpr *) flatten_join_alias_vars(query, (Node *) query->jointree);
		return (Node *) query;
	}
	if (IsStructure(node))
		return expression_tree_mutator(node, FoldMutator, root);
	return estimate_expression_value((PlannerInfo *) root, node);
}

/* The release of this execution. FindForeignCode must have found none. */
Query *
MakeConcrete(Query *query, ParamListInfo params)
{
	PlannerGlobal *glob = makeNode(PlannerGlobal);
	PlannerInfo *root = makeNode(PlannerInfo);

	glob->boundParams = params;
	query = MakePlain(query);
	root->glob = glob;
	root->parse = query;
	query = (Query *) FoldMutator((Node *) query, root);
	(void) ListSeries((Node *) query, NULL);
	return query;
}
