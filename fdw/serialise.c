/*
 * serialise.c: a release as JSON (docs/protocol.md).
 *
 * Default deny: a node kind, function, operator or aggregate that has no line
 * here or in allowed.c is refused, with the place where it stands. Nothing is
 * decided about privacy; that is the engine's.
 */
#include "privid.h"

#include "catalog/pg_aggregate.h"
#include "parser/parsetree.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#define MAX_RELEASE_NODES 100000

typedef struct Writer
{
	StringInfoData out;
	const char *source;
	List	   *tables;			/* relids, by their number in the request */
	Query	   *query;			/* the level being written */
	Expr	   *case_arg;		/* x of CASE x WHEN ... */
	int			nodes;
} Writer;

static void WriteExpr(Writer *w, Node *node);
static void WriteSelect(Writer *w, Query *query, bool release);

/* Cursor position for errposition(), from a byte offset. */
int
CharacterPosition(const char *source, int location)
{
	if (location < 0 || source == NULL || location > strlen(source))
		return 0;
	return pg_mbstrlen_with_len(source, location) + 1;
}

static void
Refuse(Writer *w, int location, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_NO_RULE),
			 errmsg("%s cannot be used in a release", what),
			 errdetail("No rule bounds what a protected event can change through it."),
			 hint ? errhint("%s", hint) : 0,
			 errposition(CharacterPosition(w->source, location))));
}

/* ------------------------------------------------------------------ expressions */

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
		case T_CoerceViaIO:
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
		case T_DistinctExpr:
			return "IS DISTINCT FROM";
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
static void
CheckCollation(Writer *w, Node *node)
{
	Oid			collation = exprInputCollation(node);

	if (OidIsValid(collation) && collation != DEFAULT_COLLATION_OID)
		Refuse(w, exprLocation(node), "a collation", "Leave COLLATE out, here and in the table's definition.");
}

static void
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
	CheckCollation(w, node);

	appendStringInfoChar(&w->out, '{');
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
		case T_OpExpr:
		case T_NullIfExpr:
			{
				OpExpr	   *op = (OpExpr *) node;

				if (!FindAllowedOperator(op->opno, &identity) || op->opretset)
					Refuse(w, op->location, psprintf("operator %s", identity),
						   "privid.allowed_calls lists the operators that can be used.");
				AppendJsonString(&w->out, "e", IsA(node, OpExpr) ? "call" : "nullif");
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

/* ------------------------------------------------------------------ relations */

/*
 * A foreign table of a camera. Its rows must be its own (no children), and the
 * role on whose behalf it is read must still be allowed to use the camera.
 */
static void
WriteTable(Writer *w, RangeTblEntry *rte, int rel)
{
	Oid			user = OidIsValid(rte->checkAsUser) ? rte->checkAsUser : GetUserId();
	Oid			serverid = GetForeignTable(rte->relid)->serverid;
	int			number = list_length(w->tables);
	ListCell   *lc;

	if (pg_foreign_server_aclcheck(serverid, user, ACL_USAGE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_SERVER, GetForeignServer(serverid)->servername);
	if (has_subclass(rte->relid) || has_superclass(rte->relid))
		Refuse(w, -1, "a table with inheritance", "Query the foreign tables themselves.");
	if (rte->tablesample || rte->securityQuals)
		Refuse(w, -1, rte->tablesample ? "TABLESAMPLE" : "row-level security", NULL);

	foreach(lc, w->tables)
		if (lfirst_oid(lc) == rte->relid)
			number = foreach_current_index(lc);
	if (number == list_length(w->tables))
		w->tables = lappend_oid(w->tables, rte->relid);

	appendStringInfoChar(&w->out, '{');
	AppendJsonString(&w->out, "kind", "table");
	AppendJsonInt(&w->out, "rel", rel);
	AppendJsonInt(&w->out, "table", number);
	appendStringInfoChar(&w->out, '}');
}

static void
WriteOther(Writer *w, const char *what)
{
	appendStringInfoChar(&w->out, '{');
	AppendJsonString(&w->out, "kind", "other");
	AppendJsonString(&w->out, "what", what);
	AppendJsonInt(&w->out, "loc", -1);
	appendStringInfoChar(&w->out, '}');
}

static void
WriteRte(Writer *w, int rel)
{
	RangeTblEntry *rte = rt_fetch(rel, w->query->rtable);

	if (rte->lateral)
		Refuse(w, -1, "LATERAL", "Join the tables, or ask in two queries.");
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			if (IsPrividTable(rte->relid))
				WriteTable(w, rte, rel);
			else
				WriteOther(w, "relation");
			return;
		case RTE_SUBQUERY:
			if (rte->subquery->setOperations)
			{
				WriteOther(w, "set operation");
				return;
			}
			appendStringInfoChar(&w->out, '{');
			AppendJsonString(&w->out, "kind", "subquery");
			AppendJsonInt(&w->out, "rel", rel);
			AppendJsonString(&w->out, "alias", rte->eref->aliasname);
			AppendJsonKey(&w->out, "select");
			WriteSelect(w, rte->subquery, false);
			appendStringInfoChar(&w->out, '}');
			return;
		case RTE_VALUES:
			WriteOther(w, "values");
			return;
		case RTE_FUNCTION:
		case RTE_TABLEFUNC:
			WriteOther(w, "function");
			return;
		case RTE_CTE:
			WriteOther(w, "cte");
			return;
		default:
			Refuse(w, -1, "this kind of relation", NULL);
	}
}

static void
WriteRel(Writer *w, Node *node)
{
	if (IsA(node, RangeTblRef))
	{
		WriteRte(w, ((RangeTblRef *) node)->rtindex);
		return;
	}
	else
	{
		JoinExpr   *join = castNode(JoinExpr, node);
		static const char *const names[] = {
			[JOIN_INNER] = "inner",[JOIN_LEFT] = "left",[JOIN_RIGHT] = "right",[JOIN_FULL] = "full"
		};

		if (join->jointype > JOIN_RIGHT)
			Refuse(w, -1, "this kind of join", NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonString(&w->out, "kind", "join");
		AppendJsonString(&w->out, "join", names[join->jointype]);
		AppendJsonKey(&w->out, "left");
		WriteRel(w, join->larg);
		AppendJsonKey(&w->out, "right");
		WriteRel(w, join->rarg);
		AppendJsonKey(&w->out, "on");
		WriteExpr(w, join->quals);
		AppendJsonInt(&w->out, "loc", exprLocation(join->quals));
		appendStringInfoChar(&w->out, '}');
	}
}

/* ------------------------------------------------------------------ query levels */

static void
WriteAggregate(Writer *w, Aggref *agg, const char *name)
{
	char	   *identity;
	ListCell   *lc;

	if (!FindAllowedAggregate(agg->aggfnoid, &identity))
		Refuse(w, agg->location, psprintf("aggregate %s", identity),
			   "privid.allowed_calls lists the aggregates that can be used.");
	CheckCollation(w, (Node *) agg);
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

		if (tle->resjunk)
			continue;			/* ORDER BY inside: no allowed aggregate depends on it */
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
}

/* "group", "aggs": the target list of a release is its keys, then its aggregates (rewrite.c) */
static void
WriteReleased(Writer *w, Query *query)
{
	ListCell   *lc;

	AppendJsonKey(&w->out, "group");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->ressortgroupref == 0)
			continue;
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonKey(&w->out, "expr");
		if (OidIsValid(exprCollation((Node *) tle->expr)) && exprCollation((Node *) tle->expr) != DEFAULT_COLLATION_OID)
			Refuse(w, exprLocation((Node *) tle->expr), "a collation",
				   "Leave COLLATE out, here and in the table's definition.");
		WriteExpr(w, (Node *) tle->expr);
		AppendJsonString(&w->out, "name", tle->resname);
		AppendJsonString(&w->out, "type", ShortTypeName(exprType((Node *) tle->expr)));
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "aggs");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->ressortgroupref != 0)
			continue;
		AppendJsonKey(&w->out, NULL);
		WriteAggregate(w, castNode(Aggref, tle->expr), tle->resname);
	}
	appendStringInfoChar(&w->out, ']');
}

/* "targets": what an inner level hands up */
static void
WriteTargets(Writer *w, Query *query)
{
	ListCell   *lc;

	appendStringInfoString(&w->out, ",\"group\":[],\"aggs\":[]");
	AppendJsonKey(&w->out, "targets");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->resjunk)
			continue;
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonString(&w->out, "name", tle->resname);
		AppendJsonKey(&w->out, "expr");
		WriteExpr(w, (Node *) tle->expr);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
}

static void
WriteSelect(Writer *w, Query *query, bool release)
{
	Query	   *outer = w->query;
	ListCell   *lc;

	check_stack_depth();
	if (query->commandType != CMD_SELECT)
		Refuse(w, -1, "a statement that changes data", NULL);
	if (query->rowMarks)
		Refuse(w, -1, "FOR UPDATE or FOR SHARE", NULL);
	if (query->groupingSets)
		Refuse(w, -1, "GROUPING SETS, ROLLUP or CUBE", "Ask for each grouping in a query of its own.");
	if (query->hasWindowFuncs)
		Refuse(w, -1, "a window function", NULL);
	if (query->hasTargetSRFs)
		Refuse(w, -1, "a set-returning function", NULL);
	if (!release && (query->hasAggs || query->groupClause))
		Refuse(w, exprLocation((Node *) query->targetList), "an aggregate of an aggregate",
			   "Ask for the inner aggregate as a release; the outer one is then ordinary SQL over it.");
	if (query->limitOption == LIMIT_OPTION_WITH_TIES)
		Refuse(w, -1, "FETCH FIRST ... WITH TIES", NULL);

	w->query = query;
	appendStringInfoChar(&w->out, '{');
	AppendJsonKey(&w->out, "from");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->jointree->fromlist)
	{
		AppendJsonKey(&w->out, NULL);
		WriteRel(w, lfirst(lc));
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "where");
	WriteExpr(w, query->jointree->quals);
	if (release)
		WriteReleased(w, query);
	else
		WriteTargets(w, query);
	AppendJsonBool(&w->out, "distinct", query->distinctClause != NIL);
	AppendJsonKey(&w->out, "limit");
	WriteExpr(w, query->limitCount);
	AppendJsonKey(&w->out, "offset");
	WriteExpr(w, query->limitOffset);
	appendStringInfoChar(&w->out, '}');
	w->query = outer;
}

/* The members "tables" and "select" of a request. */
char *
SerialiseRelease(Query *release, const char *source, List **tables)
{
	Writer		w = {.source = source};
	StringInfoData result;
	ListCell   *lc;

	initStringInfo(&w.out);
	WriteSelect(&w, release, true);

	initStringInfo(&result);
	appendStringInfoString(&result, "\"tables\":[");
	foreach(lc, w.tables)
	{
		AppendJsonKey(&result, NULL);
		AppendTable(&result, lfirst_oid(lc));
	}
	appendStringInfo(&result, "],\"select\":%s", w.out.data);
	*tables = w.tables;
	return result.data;
}
