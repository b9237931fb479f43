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

/* Cursor position for errposition(), from a byte offset. */
int
CharacterPosition(const char *source, int location)
{
	if (location < 0 || source == NULL || location > strlen(source))
		return 0;
	return pg_mbstrlen_with_len(source, location) + 1;
}

void
Refuse(Writer *w, int location, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_NO_RULE),
			 errmsg("%s cannot be used in a release", what),
			 errdetail("No rule bounds what a protected event can change through it."),
			 hint ? errhint("%s", hint) : 0,
			 errposition(CharacterPosition(w->source, location))));
}

static void
WriteArgs(Writer *w, List *args)
{
	ListCell   *lc;

	AppendJsonKey(&w->out, "args");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, args)
	{
		AppendJsonKey(&w->out, NULL);
		WriteExpr(w, lfirst(lc));
	}
	appendStringInfoChar(&w->out, ']');
}

static void
WriteConst(Writer *w, Oid type, Datum value, bool isnull)
{
	Oid			output;
	bool		varlena;

	AppendJsonString(&w->out, "e", "const");
	getTypeOutputInfo(type, &output, &varlena);
	AppendJsonString(&w->out, "value", isnull ? NULL : OidOutputFunctionCall(output, value));
}

static void
WriteVar(Writer *w, Var *var)
{
	RangeTblEntry *rte;
	char	   *name;

	if (var->varlevelsup > 0)
		Refuse(w, var->location, "a column of an outer query", "Join the tables, or ask in two queries.");
	rte = rt_fetch(var->varno, w->query->rtable);
	if (var->varattno <= 0)
		Refuse(w, var->location, var->varattno == 0 ? "a whole row" : "a system column", "Name the columns.");
	name = get_rte_attribute_name(rte, var->varattno);
	AppendJsonString(&w->out, "e", "col");
	AppendJsonInt(&w->out, "rel", var->varno);
	AppendJsonInt(&w->out, "col", var->varattno);
	AppendJsonString(&w->out, "name", name);
}

/* x op ANY (array of constants) */
static void
WriteAny(Writer *w, ScalarArrayOpExpr *expr)
{
	Node	   *array = lsecond(expr->args);
	char	   *identity;
	Datum	   *items;
	bool	   *nulls;
	int			count;
	Oid			element;
	int16		length;
	bool		byval;
	char		align;

	if (!FindAllowedOperator(expr->opno, &identity))
		Refuse(w, expr->location, psprintf("operator %s", identity), NULL);
	if (!IsA(array, Const) || ((Const *) array)->constisnull)
		Refuse(w, expr->location, "a list that is not constant", "List the values as constants.");
	AppendJsonString(&w->out, "e", "any");
	AppendJsonString(&w->out, "fn", identity);
	AppendJsonBool(&w->out, "all", !expr->useOr);
	AppendJsonKey(&w->out, "args");
	appendStringInfoChar(&w->out, '[');
	WriteExpr(w, linitial(expr->args));

	element = get_element_type(((Const *) array)->consttype);
	get_typlenbyvalalign(element, &length, &byval, &align);
	deconstruct_array(DatumGetArrayTypeP(((Const *) array)->constvalue), element, length, byval, align,
					  &items, &nulls, &count);
	if (count > MAX_RELEASE_NODES)
		Refuse(w, expr->location, "a list of that many values", NULL);
	appendStringInfoString(&w->out, ",{");
	AppendJsonString(&w->out, "e", "array");
	AppendJsonKey(&w->out, "items");
	appendStringInfoChar(&w->out, '[');
	for (int i = 0; i < count; i++)
	{
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		WriteConst(w, element, items[i], nulls[i]);
		AppendJsonString(&w->out, "type", ShortTypeName(element));
		AppendJsonInt(&w->out, "loc", -1);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonString(&w->out, "type", "array");
	AppendJsonInt(&w->out, "loc", exprLocation(array));
	appendStringInfoString(&w->out, "}]");
}

static void
WriteCase(Writer *w, CaseExpr *expr)
{
	Expr	   *saved = w->case_arg;
	ListCell   *lc;

	AppendJsonString(&w->out, "e", "case");
	AppendJsonKey(&w->out, "whens");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, expr->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);

		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '[');
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

static void
WriteBoolExpr(Writer *w, BoolExpr *expr)
{
	AppendJsonString(&w->out, "e",
					 expr->boolop == AND_EXPR ? "and" : expr->boolop == OR_EXPR ? "or" : "not");
	WriteArgs(w, expr->args);
}

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

/* Text is compared as the database does it: another collation may be code of an analyst's choosing. */
void
CheckCollation(Writer *w, Oid collation, Node *node)
{
	if (OidIsValid(collation) && collation != DEFAULT_COLLATION_OID)
		Refuse(w, exprLocation(node), "a collation", "Leave COLLATE out, here and in the table's definition.");
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

/* A cast through text that has a total version. */
static void
WriteCast(Writer *w, CoerceViaIO *cast)
{
	const AllowedCall *call;
	char	   *identity;

	call = FindAllowedCast(exprType((Node *) cast->arg), cast->resulttype, &identity);
	if (!call)
		Refuse(w, cast->location, "this cast", "privid.allowed_calls lists the casts that can be used.");
	AppendJsonString(&w->out, "e", "cast");
	AppendJsonString(&w->out, "fn", identity);
	WriteArgs(w, list_make1(cast->arg));
}

void
WriteExpr(Writer *w, Node *node)
{
	char	   *identity;

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
	if (++w->nodes > MAX_RELEASE_NODES)
		Refuse(w, -1, "an expression of that size", NULL);
	CheckCollation(w, exprInputCollation(node), node);

	appendStringInfoChar(&w->out, '{');
	if (w->grouped && WriteByNumber(w, node))
		 /* done */ ;
	else
	switch (nodeTag(node))
	{
		case T_Var:
			WriteVar(w, (Var *) node);
			break;
		case T_Const:
			WriteConst(w, ((Const *) node)->consttype, ((Const *) node)->constvalue, ((Const *) node)->constisnull);
			break;
		case T_FuncExpr:
			{
				FuncExpr   *call = (FuncExpr *) node;

				if (!FindAllowedFunction(call->funcid, &identity) || call->funcretset || call->funcvariadic)
					Refuse(w, call->location, psprintf("function %s", identity),
						   "privid.allowed_calls lists the functions that can be used.");
				AppendJsonString(&w->out, "e", "call");
				AppendJsonString(&w->out, "fn", identity);
				WriteArgs(w, call->args);
				break;
			}
		case T_CoerceViaIO:
			WriteCast(w, (CoerceViaIO *) node);
			break;
		case T_OpExpr:
		case T_NullIfExpr:
		case T_DistinctExpr:
			{
				OpExpr	   *op = (OpExpr *) node;

				if (!FindAllowedOperator(op->opno, &identity) || op->opretset)
					Refuse(w, op->location, psprintf("operator %s", identity),
						   "privid.allowed_calls lists the operators that can be used.");
				AppendJsonString(&w->out, "e", IsA(node, OpExpr) ? "call" : IsA(node, NullIfExpr) ? "nullif" : "distinct");
				AppendJsonString(&w->out, "fn", identity);
				AppendJsonBool(&w->out, "op", true);
				WriteArgs(w, op->args);
				break;
			}
		case T_ScalarArrayOpExpr:
			WriteAny(w, (ScalarArrayOpExpr *) node);
			break;
		case T_BoolExpr:
			WriteBoolExpr(w, (BoolExpr *) node);
			break;
		case T_NullTest:
			if (((NullTest *) node)->argisrow)
				Refuse(w, exprLocation(node), "a row value", NULL);
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
			Refuse(w, exprLocation(node), NodeWords(node), NULL);
	}
	AppendJsonString(&w->out, "type", ShortTypeName(exprType(node)));
	AppendJsonInt(&w->out, "loc", exprLocation(node));
	appendStringInfoChar(&w->out, '}');
}

void
WriteAggregate(Writer *w, Aggref *agg, const char *name)
{
	char	   *identity;
	bool		grouped = w->grouped;
	ListCell   *lc;

	/* what is inside an aggregate speaks of rows, not of groups */
	w->grouped = false;
	if (!FindAllowedAggregate(agg->aggfnoid, &identity))
		Refuse(w, agg->location, psprintf("aggregate %s", identity),
			   "privid.allowed_calls lists the aggregates that can be used.");
	CheckCollation(w, agg->inputcollid, (Node *) agg);
	if (agg->aggorder)
		Refuse(w, agg->location, "ORDER BY in an aggregate", "Leave it out: no aggregate of a release depends on an order.");
	if (agg->aggkind != AGGKIND_NORMAL || agg->aggvariadic || agg->agglevelsup > 0)
		Refuse(w, agg->location, "this form of aggregate", NULL);
	appendStringInfoChar(&w->out, '{');
	AppendJsonString(&w->out, "name", identity);
	AppendJsonString(&w->out, "label", name);
	AppendJsonKey(&w->out, "args");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, agg->args)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		AppendJsonKey(&w->out, NULL);
		WriteExpr(w, (Node *) tle->expr);
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
