/*
 * expressions.c: the expressions of a release as JSON (docs/protocol.md).
 *
 * Default deny: a node kind, function, operator or cast that has no line here
 * or in allowed.c is refused, with the place where it stands.
 */
#include "writer.h"

#include "catalog/pg_aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* Raise what kept a level from being a release. */
void
RaiseRefusal(const Refusal *refusal, const char *source)
{
	ereport(ERROR,
			(errcode(refusal->sqlstate),
			 errmsg_internal("%s", refusal->message),
			 refusal->detail ? errdetail_internal("%s", refusal->detail) : 0,
			 refusal->hint ? errhint("%s", refusal->hint) : 0,
			 errposition(CharacterPosition(source, refusal->location))));
}

/* Members of an object that stands where something without a form stood. */
void
WriteRefusal(Writer *w, int location, const char *what, const char *hint)
{
	AppendJsonString(&w->out, "refused", what);
	AppendJsonString(&w->out, "hint", hint);
	AppendJsonInt(&w->out, "loc", location);
}

/* "args": [...] */
static void
WriteArgs(Writer *w, List *args)
{
	ListCell   *lc;

	OpenJson(&w->out, "args", '[');
	foreach(lc, args)
	{
		AppendJsonKey(&w->out, NULL);
		WriteExpr(w, lfirst(lc));
	}
	appendStringInfoChar(&w->out, ']');
}

/* "e": "const" */
static void
WriteConst(Writer *w, Oid type, Datum value, bool isnull)
{
	Oid			output;
	bool		varlena;

	AppendJsonString(&w->out, "e", "const");
	getTypeOutputInfo(type, &output, &varlena);
	AppendJsonString(&w->out, "value", isnull ? NULL : OidOutputFunctionCall(output, value));
}

/* The name of a column, which must still be there as it was when the statement was read. */
const char *
ColumnName(RangeTblEntry *rte, Var *var)
{
	if (rte->rtekind == RTE_RELATION && get_atttype(rte->relid, var->varattno) != var->vartype)
		RaiseChanged(get_rel_name(rte->relid));
	return get_rte_attribute_name(rte, var->varattno);
}

/* "e": "col" */
static void
WriteVar(Writer *w, Var *var)
{
	AppendJsonString(&w->out, "e", "col");
	AppendJsonInt(&w->out, "rel", var->varno);
	AppendJsonInt(&w->out, "col", var->varattno);
	AppendJsonString(&w->out, "name", ColumnName(rt_fetch(var->varno, w->query->rtable), var));
}

/* "e": "any": x op ANY (array of constants) */
static void
WriteAny(Writer *w, ScalarArrayOpExpr *expr, const char *identity)
{
	Const	   *array = lsecond_node(Const, expr->args);
	Datum	   *items;
	bool	   *nulls;
	int			count;
	Oid			element = get_element_type(array->consttype);
	int16		length;
	bool		byval;
	char		align;

	AppendJsonString(&w->out, "e", "any");
	AppendJsonString(&w->out, "fn", identity);
	AppendJsonBool(&w->out, "all", !expr->useOr);
	OpenJson(&w->out, "args", '[');
	WriteExpr(w, linitial(expr->args));

	get_typlenbyvalalign(element, &length, &byval, &align);
	deconstruct_array(DatumGetArrayTypeP(array->constvalue), element, length, byval, align, &items, &nulls, &count);
	w->nodes += count;
	appendStringInfoString(&w->out, ",{");
	AppendJsonString(&w->out, "e", "array");
	OpenJson(&w->out, "items", '[');
	for (int i = 0; i < count && w->nodes <= MAX_RELEASE_NODES; i++)
	{
		OpenJson(&w->out, NULL, '{');
		WriteConst(w, element, items[i], nulls[i]);
		AppendJsonString(&w->out, "type", ShortTypeName(element));
		AppendJsonInt(&w->out, "loc", -1);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	if (w->nodes > MAX_RELEASE_NODES)
		WriteRefusal(w, expr->location, "a list of that many values", NULL);
	AppendJsonString(&w->out, "type", "array");
	appendStringInfoString(&w->out, "}]");
}

/* "e": "case"; CASE x WHEN y is written as CASE WHEN x = y */
static void
WriteCase(Writer *w, CaseExpr *expr)
{
	Expr	   *saved = w->case_arg;
	ListCell   *lc;

	AppendJsonString(&w->out, "e", "case");
	OpenJson(&w->out, "whens", '[');
	foreach(lc, expr->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);

		OpenJson(&w->out, NULL, '[');
		w->case_arg = expr->arg;
		WriteExpr(w, (Node *) when->expr);
		w->case_arg = saved;
		appendStringInfoChar(&w->out, ',');
		WriteExpr(w, (Node *) when->result);
		appendStringInfoChar(&w->out, ']');
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "else");
	WriteExpr(w, (Node *) expr->defresult);
}

/* "e": "and", "or", "not" */
static void
WriteBoolExpr(Writer *w, BoolExpr *expr)
{
	AppendJsonString(&w->out, "e",
					 expr->boolop == AND_EXPR ? "and" : expr->boolop == OR_EXPR ? "or" : "not");
	WriteArgs(w, expr->args);
}

/* "e": "test" */
static void
WriteBooleanTest(Writer *w, BooleanTest *test)
{
	static const char *const names[] = {
		[IS_TRUE] = "is true",[IS_NOT_TRUE] = "is not true",
		[IS_FALSE] = "is false",[IS_NOT_FALSE] = "is not false",
		[IS_UNKNOWN] = "is unknown",[IS_NOT_UNKNOWN] = "is not unknown",
	};

	AppendJsonString(&w->out, "e", "test");
	AppendJsonString(&w->out, "test", names[test->booltesttype]);
	WriteArgs(w, list_make1(test->arg));
}

/* The name of a refused node, for people. */
static const char *
NodeWords(Node *node)
{
	switch (nodeTag(node))
	{
		case T_SubLink:
			return "a subquery in an expression";
		case T_WindowFunc:
			return "a window function";
		case T_Aggref:
			return "an aggregate of an aggregate";
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_CoerceToDomain:
			return "this cast";
		case T_CollateExpr:
			return "a collation";
		case T_RowExpr:
		case T_RowCompareExpr:
			return "a row value";
		case T_ArrayExpr:
		case T_SubscriptingRef:
			return "an array";
		case T_SQLValueFunction:
		case T_XmlExpr:
			return "this function";
		case T_Param:
			return "a parameter without a value";
		default:
			return "this expression";
	}
}

/*
 * What is in the way of comparing values of this type by this collation, or
 * NULL. Text is compared as the database does it: another collation may be code
 * of an analyst's choosing, and two that differ leave none.
 */
const char *
CollationProblem(Oid collation, Oid type)
{
	if (OidIsValid(collation) && collation != DEFAULT_COLLATION_OID)
		return "a collation";
	if (!OidIsValid(collation) && type_is_collatable(type))
		return "a comparison of text by conflicting collations";
	return NULL;
}

/* The same for what a node compares. */
static const char *
InputCollationProblem(Node *node)
{
	List	   *args = NIL;
	ListCell   *lc;

	if (IsA(node, FuncExpr))
		args = ((FuncExpr *) node)->args;
	else if (IsA(node, OpExpr) || IsA(node, NullIfExpr) || IsA(node, DistinctExpr))
		args = ((OpExpr *) node)->args;
	else if (IsA(node, ScalarArrayOpExpr))
		args = ((ScalarArrayOpExpr *) node)->args;
	else if (IsA(node, MinMaxExpr))
		args = ((MinMaxExpr *) node)->args;
	else if (IsA(node, Aggref))
		args = ((Aggref *) node)->args;
	foreach(lc, args)
	{
		Node	   *arg = lfirst(lc);
		const char *problem;

		if (IsA(arg, TargetEntry))
			arg = (Node *) ((TargetEntry *) arg)->expr;
		problem = CollationProblem(exprInputCollation(node), exprType(arg));
		if (problem)
			return problem;
	}
	return CollationProblem(exprInputCollation(node), InvalidOid);
}

/*
 * What keeps this node, as far as it goes itself, from being part of a release,
 * or NULL; *hint says what to do about it, *identity names what it calls.
 */
static const char *
NodeProblem(Writer *w, Node *node, char **identity, const char **hint)
{
	const char *collation = InputCollationProblem(node);

	*hint = NULL;
	if (++w->nodes > MAX_RELEASE_NODES || w->depth > MAX_DEPTH)
		return "an expression of that size";
	if (collation)
	{
		*hint = "Leave COLLATE out, here and in the tables' definitions.";
		return collation;
	}
	switch (nodeTag(node))
	{
		case T_Var:
			*hint = "Join the tables, or ask in two queries.";
			if (((Var *) node)->varlevelsup > 0)
				return "a column of an outer query";
			*hint = "Name the columns.";
			if (((Var *) node)->varattno <= 0)
				return ((Var *) node)->varattno == 0 ? "a whole row" : "a system column";
			*hint = "Leave COLLATE out of the table's definition.";
			return CollationProblem(exprCollation(node), exprType(node));
		case T_FuncExpr:
			*hint = "privid.allowed_calls lists the functions that can be used.";
			if (!FindAllowedFunction(((FuncExpr *) node)->funcid, identity) || ((FuncExpr *) node)->funcretset ||
				((FuncExpr *) node)->funcvariadic)
				return psprintf("function %s", *identity);
			return NULL;
		case T_OpExpr:
		case T_NullIfExpr:
		case T_DistinctExpr:
			*hint = "privid.allowed_calls lists the operators that can be used.";
			if (!FindAllowedOperator(((OpExpr *) node)->opno, identity) || ((OpExpr *) node)->opretset)
				return psprintf("operator %s", *identity);
			return NULL;
		case T_ScalarArrayOpExpr:
			{
				Const	   *array = lsecond(((ScalarArrayOpExpr *) node)->args);

				if (!FindAllowedOperator(((ScalarArrayOpExpr *) node)->opno, identity))
					return psprintf("operator %s", *identity);
				*hint = "List the values as constants.";
				return !IsA(array, Const) || array->constisnull ? "a list that is not constant" : NULL;
			}
		case T_CoerceViaIO:
			*hint = "privid.allowed_calls lists the casts that can be used.";
			return FindAllowedCast(exprType((Node *) ((CoerceViaIO *) node)->arg), ((CoerceViaIO *) node)->resulttype, identity)
				? NULL : "this cast";
		case T_NullTest:
			return ((NullTest *) node)->argisrow ? "a row value" : NULL;
		case T_Const:
		case T_BoolExpr:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
			return NULL;
		case T_RelabelType:		/* COLLATE ends up here too */
			*hint = "Leave COLLATE out.";
			return CollationProblem(exprCollation(node), exprType(node));
		default:
			return NodeWords(node);
	}
}

/* A grouped level speaks of its groups and aggregates by number; false for anything else. */
static bool
WriteByNumber(Writer *w, Node *node)
{
	ListCell   *lc;
	int			index = 0;

	foreach(lc, w->groups)
	{
		if (equal(lfirst(lc), node))
		{
			AppendJsonString(&w->out, "e", "group");
			AppendJsonInt(&w->out, "index", index);
			return true;
		}
		index++;
	}
	if (!IsA(node, Aggref) || ((Aggref *) node)->agglevelsup > 0)
		return false;
	index = 0;
	foreach(lc, w->aggs)
	{
		if (equal(lfirst(lc), node))
			break;
		index++;
	}
	if (index == list_length(w->aggs))
		w->aggs = lappend(w->aggs, node);
	AppendJsonString(&w->out, "e", "agg");
	AppendJsonInt(&w->out, "index", index);
	return true;
}

/* The members of a node that has a form, but for its type and place. */
static void
WriteNode(Writer *w, Node *node, const char *identity)
{
	switch (nodeTag(node))
	{
		case T_Var:
			WriteVar(w, (Var *) node);
			break;
		case T_Const:
			WriteConst(w, ((Const *) node)->consttype, ((Const *) node)->constvalue, ((Const *) node)->constisnull);
			break;
		case T_FuncExpr:
			AppendJsonString(&w->out, "e", "call");
			AppendJsonString(&w->out, "fn", identity);
			WriteArgs(w, ((FuncExpr *) node)->args);
			break;
		case T_CoerceViaIO:
			AppendJsonString(&w->out, "e", "cast");
			AppendJsonString(&w->out, "fn", identity);
			WriteArgs(w, list_make1(((CoerceViaIO *) node)->arg));
			break;
		case T_OpExpr:
		case T_NullIfExpr:
		case T_DistinctExpr:
			AppendJsonString(&w->out, "e", IsA(node, OpExpr) ? "call" : IsA(node, NullIfExpr) ? "nullif" : "distinct");
			AppendJsonString(&w->out, "fn", identity);
			AppendJsonBool(&w->out, "op", true);
			WriteArgs(w, ((OpExpr *) node)->args);
			break;
		case T_ScalarArrayOpExpr:
			WriteAny(w, (ScalarArrayOpExpr *) node, identity);
			break;
		case T_BoolExpr:
			WriteBoolExpr(w, (BoolExpr *) node);
			break;
		case T_NullTest:
			AppendJsonString(&w->out, "e", ((NullTest *) node)->nulltesttype == IS_NULL ? "isnull" : "isnotnull");
			WriteArgs(w, list_make1(((NullTest *) node)->arg));
			break;
		case T_BooleanTest:
			WriteBooleanTest(w, (BooleanTest *) node);
			break;
		case T_CaseExpr:
			WriteCase(w, (CaseExpr *) node);
			break;
		case T_CoalesceExpr:
			AppendJsonString(&w->out, "e", "coalesce");
			WriteArgs(w, ((CoalesceExpr *) node)->args);
			break;
		case T_MinMaxExpr:
			AppendJsonString(&w->out, "e", ((MinMaxExpr *) node)->op == IS_GREATEST ? "greatest" : "least");
			WriteArgs(w, ((MinMaxExpr *) node)->args);
			break;
		case T_RelabelType:
			AppendJsonString(&w->out, "e", "relabel");
			WriteArgs(w, list_make1(((RelabelType *) node)->arg));
			break;
		default:
			elog(ERROR, "node without a form: %d", (int) nodeTag(node));
	}
}

/* An expression, or null when there is none. */
void
WriteExpr(Writer *w, Node *node)
{
	char	   *identity = NULL;
	const char *hint;
	const char *problem;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (node == NULL)
	{
		appendStringInfoString(&w->out, "null");
		return;
	}
	if (IsA(node, CaseTestExpr) && w->case_arg)
	{
		WriteExpr(w, (Node *) w->case_arg);
		return;
	}
	appendStringInfoChar(&w->out, '{');
	if (!(w->grouped && WriteByNumber(w, node)))
	{
		problem = NodeProblem(w, node, &identity, &hint);
		if (problem)
		{
			WriteRefusal(w, exprLocation(node), problem, hint);
			appendStringInfoChar(&w->out, '}');
			return;
		}
		w->depth++;
		WriteNode(w, node, identity);
		w->depth--;
	}
	AppendJsonString(&w->out, "type", ShortTypeName(exprType(node)));
	AppendJsonInt(&w->out, "loc", exprLocation(node));
	appendStringInfoChar(&w->out, '}');
}

/* What to ask in the place of a quantile without a rule: one at a time, or how many values lie in each bin. */
static const char *
QuantileHint(Writer *w, Aggref *agg)
{
	Var		   *value = (Var *) linitial_node(TargetEntry, agg->args)->expr;
	const char *name = IsA(value, Var) && value->varlevelsup == 0 && value->varattno > 0
		? ColumnName(rt_fetch(value->varno, w->query->rtable), value) : "value";

	if (list_length(agg->aggdirectargs) == 1 && type_is_array(exprType(linitial(agg->aggdirectargs))))
		return psprintf("Write each fraction by itself, with the bounds that matter to you, for example percentile_cont(0.5) WITHIN GROUP "
						"(ORDER BY range(%s, 0, 10)).", name);
	return psprintf("Count by bins of the value instead: SELECT width_bucket(%s, 0, 10, 20), count(*) ... GROUP BY 1.", name);
}

/* Are the values of WITHIN GROUP in the order of their type, from least to greatest? */
static bool
IsRising(Aggref *agg)
{
	Oid			type = exprType((Node *) linitial_node(TargetEntry, agg->args)->expr);

	return list_length(agg->aggorder) == 1 &&
		linitial_node(SortGroupClause, agg->aggorder)->sortop == lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr;
}

/* What keeps an aggregate from being part of a release, or NULL. */
static const char *
AggregateProblem(Writer *w, Aggref *agg, char **identity, const char **hint)
{
	const char *collation = InputCollationProblem((Node *) agg);

	*hint = "privid.allowed_calls lists the aggregates that can be used.";
	if (agg->aggkind == AGGKIND_ORDERED_SET && list_length(agg->args) == 1)
		*hint = QuantileHint(w, agg);
	if (!FindAllowedAggregate(agg->aggfnoid, identity))
		return psprintf("aggregate %s", *identity);
	*hint = "Leave it out: no aggregate of a release depends on an order.";
	if (agg->aggorder && agg->aggkind == AGGKIND_NORMAL)
		return "ORDER BY in an aggregate";
	*hint = "Leave it out, and write 1 less the fraction: percentile_cont(0.9) for percentile_cont(0.1) in falling order.";
	if (agg->aggkind == AGGKIND_ORDERED_SET && !IsRising(agg))
		return "this order in an aggregate";
	*hint = NULL;
	if (agg->aggkind == AGGKIND_HYPOTHETICAL || agg->aggvariadic || agg->agglevelsup > 0)
		return "this form of aggregate";
	*hint = "Leave COLLATE out, here and in the tables' definitions.";
	return collation;
}

/* An aggregate of the release or of a level below it. */
void
WriteAggregate(Writer *w, Aggref *agg, const char *name)
{
	bool		grouped = w->grouped;
	char	   *identity;
	const char *hint;
	const char *problem = AggregateProblem(w, agg, &identity, &hint);
	ListCell   *lc;

	appendStringInfoChar(&w->out, '{');
	if (problem)
	{
		WriteRefusal(w, agg->location, problem, hint);
		appendStringInfoChar(&w->out, '}');
		return;
	}
	/* what is inside an aggregate speaks of rows, not of groups */
	w->grouped = false;
	AppendJsonString(&w->out, "name", identity);
	AppendJsonString(&w->out, "label", name);
	OpenJson(&w->out, "args", '[');
	/* of WITHIN GROUP: the fraction, then what is in order */
	foreach(lc, agg->aggdirectargs)
	{
		AppendJsonKey(&w->out, NULL);
		WriteExpr(w, lfirst(lc));
	}
	foreach(lc, agg->args)
	{
		AppendJsonKey(&w->out, NULL);
		WriteExpr(w, (Node *) lfirst_node(TargetEntry, lc)->expr);
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonBool(&w->out, "star", agg->aggstar);
	AppendJsonBool(&w->out, "distinct", agg->aggdistinct != NIL);
	AppendJsonKey(&w->out, "filter");
	WriteExpr(w, (Node *) agg->aggfilter);
	AppendJsonString(&w->out, "type", ShortTypeName(agg->aggtype));
	AppendJsonInt(&w->out, "loc", agg->location);
	appendStringInfoChar(&w->out, '}');
	w->grouped = grouped;
}
