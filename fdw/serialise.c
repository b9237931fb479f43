/*
 * serialise.c: the query levels and relations of a release as JSON
 * (docs/protocol.md). Expressions are in expressions.c.
 *
 * Default deny here as there. Nothing is decided about privacy; that is the
 * engine's.
 */
#include "writer.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

static void WriteLevel(Writer *w, Query *query);

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

	foreach(lc, w->tables)
		if (lfirst_oid(lc) == rte->relid)
			number = foreach_current_index(lc);
	if (number == list_length(w->tables))
		w->tables = lappend_oid(w->tables, rte->relid);

	AppendJsonString(&w->out, "kind", "table");
	AppendJsonInt(&w->out, "rel", rel);
	AppendJsonInt(&w->out, "table", number);
}

/* "unique": the columns of each index that lets every key occur once, for all rows and at once */
static void
WriteUniqueKeys(Writer *w, Relation relation)
{
	List	   *indexes = RelationGetIndexList(relation);
	ListCell   *lc;

	AppendJsonKey(&w->out, "unique");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		if (index->indisunique && index->indimmediate && index->indisvalid &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL) && heap_attisnull(tuple, Anum_pg_index_indexprs, NULL))
		{
			AppendJsonKey(&w->out, NULL);
			appendStringInfoChar(&w->out, '[');
			for (int i = 0; i < index->indnkeyatts; i++)
			{
				AppendJsonKey(&w->out, NULL);
				appendStringInfo(&w->out, "%d", index->indkey.values[i]);
			}
			appendStringInfoChar(&w->out, ']');
		}
		ReleaseSysCache(tuple);
	}
	appendStringInfoChar(&w->out, ']');
}

/* An ordinary table: its contents are public, as they are in this snapshot. */
static void
WriteRelation(Writer *w, RangeTblEntry *rte, int rel)
{
	Relation	relation = table_open(rte->relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(relation);

	AppendJsonString(&w->out, "kind", "relation");
	AppendJsonInt(&w->out, "rel", rel);
	AppendJsonString(&w->out, "alias", rte->eref->aliasname);
	AppendJsonString(&w->out, "schema", get_namespace_name(RelationGetNamespace(relation)));
	AppendJsonString(&w->out, "name", RelationGetRelationName(relation));
	AppendJsonKey(&w->out, "columns");
	appendStringInfoChar(&w->out, '[');
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonString(&w->out, "name", NameStr(att->attname));
		AppendJsonInt(&w->out, "attno", att->attnum);
		AppendJsonString(&w->out, "type", ShortTypeName(att->atttypid));
		AppendJsonBool(&w->out, "not_null", att->attnotnull);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	WriteUniqueKeys(w, relation);
	table_close(relation, NoLock);
}

/* VALUES of constants */
static void
WriteValues(Writer *w, RangeTblEntry *rte, int rel)
{
	ListCell   *lc,
			   *name,
			   *type;

	AppendJsonString(&w->out, "kind", "values");
	AppendJsonInt(&w->out, "rel", rel);
	AppendJsonString(&w->out, "alias", rte->eref->aliasname);
	AppendJsonKey(&w->out, "columns");
	appendStringInfoChar(&w->out, '[');
	forboth(name, rte->eref->colnames, type, rte->coltypes)
	{
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonString(&w->out, "name", strVal(lfirst(name)));
		AppendJsonString(&w->out, "type", ShortTypeName(lfirst_oid(type)));
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "rows");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, rte->values_lists)
	{
		ListCell   *cell;

		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '[');
		foreach(cell, lfirst_node(List, lc))
		{
			if (!IsA(lfirst(cell), Const))
				Refuse(w, exprLocation(lfirst(cell)), "VALUES that are not constant", NULL);
			AppendJsonKey(&w->out, NULL);
			WriteExpr(w, lfirst(cell));
		}
		appendStringInfoChar(&w->out, ']');
	}
	appendStringInfoChar(&w->out, ']');
}

static void
WriteOther(Writer *w, const char *what)
{
	AppendJsonString(&w->out, "kind", "other");
	AppendJsonString(&w->out, "what", what);
	AppendJsonInt(&w->out, "loc", -1);
}

static void
WriteRte(Writer *w, int rel)
{
	RangeTblEntry *rte = rt_fetch(rel, w->query->rtable);

	if (rte->lateral)
		Refuse(w, -1, "LATERAL", "Join the tables, or ask in two queries.");
	if (rte->securityQuals)
		Refuse(w, -1, "row-level security", "Query tables without policies.");
	if (rte->tablesample)
		Refuse(w, -1, "TABLESAMPLE", NULL);
	if (rte->rtekind == RTE_RELATION && (has_subclass(rte->relid) || has_superclass(rte->relid)))
		Refuse(w, -1, "a table with inheritance", "Query the tables themselves.");

	appendStringInfoChar(&w->out, '{');
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			if (IsPrividTable(rte->relid))
				WriteTable(w, rte, rel);
			else if ((rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW) &&
					 rte->relid >= FirstNormalObjectId)
				WriteRelation(w, rte, rel);
			else
				WriteOther(w, "relation");
			break;
		case RTE_SUBQUERY:
			AppendJsonString(&w->out, "kind", "subquery");
			AppendJsonInt(&w->out, "rel", rel);
			AppendJsonString(&w->out, "alias", rte->eref->aliasname);
			AppendJsonKey(&w->out, "select");
			WriteLevel(w, rte->subquery);
			break;
		case RTE_VALUES:
			WriteValues(w, rte, rel);
			break;
		case RTE_FUNCTION:
		case RTE_TABLEFUNC:
			WriteOther(w, "function");
			break;
		case RTE_CTE:
			WriteOther(w, "cte");
			break;
		default:
			Refuse(w, -1, "this kind of relation", NULL);
	}
	appendStringInfoChar(&w->out, '}');
}

static void
WriteRel(Writer *w, Node *node)
{
	static const char *const names[] = {
		[JOIN_INNER] = "inner",[JOIN_LEFT] = "left",[JOIN_RIGHT] = "right",[JOIN_FULL] = "full"
	};
	JoinExpr   *join;

	if (IsA(node, RangeTblRef))
	{
		WriteRte(w, ((RangeTblRef *) node)->rtindex);
		return;
	}
	if (!IsA(node, JoinExpr))
		Refuse(w, -1, "this kind of join", NULL);
	join = (JoinExpr *) node;
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

/* ------------------------------------------------------------------ query levels */

/* What no level of a release may contain. */
static void
CheckLevel(Writer *w, Query *query)
{
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
	if (query->limitOption == LIMIT_OPTION_WITH_TIES)
		Refuse(w, -1, "FETCH FIRST ... WITH TIES", NULL);
	if (query->hasDistinctOn)
		Refuse(w, -1, "DISTINCT ON", "Use DISTINCT, or GROUP BY with min or max.");
}

static void
WriteLimits(Writer *w, Query *query)
{
	AppendJsonKey(&w->out, "limit");
	WriteExpr(w, query->limitCount);
	AppendJsonKey(&w->out, "offset");
	WriteExpr(w, query->limitOffset);
}

static void
WriteGroup(Writer *w, Node *expr, const char *name)
{
	CheckCollation(w, exprCollation(expr), expr);
	AppendJsonKey(&w->out, NULL);
	appendStringInfoChar(&w->out, '{');
	AppendJsonKey(&w->out, "expr");
	WriteExpr(w, expr);
	AppendJsonString(&w->out, "name", name);
	AppendJsonString(&w->out, "type", ShortTypeName(exprType(expr)));
	appendStringInfoChar(&w->out, '}');
}

/* "from", "where": of any level */
static void
WriteSources(Writer *w, Query *query)
{
	ListCell   *lc;

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
}

/*
 * "order": what a level sorts by. Its expressions are evaluated on private rows
 * like any other, also those that are no column of the level, so they must be
 * written and judged; and which rows a LIMIT keeps depends on them.
 */
static void
WriteOrder(Writer *w, Query *query)
{
	ListCell   *lc;

	AppendJsonKey(&w->out, "order");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->sortClause)
	{
		SortGroupClause *sort = lfirst_node(SortGroupClause, lc);
		Node	   *expr = (Node *) get_sortgroupclause_tle(sort, query->targetList)->expr;
		Oid			less,
					equal,
					greater;
		bool		hashable;

		get_sort_group_operators(exprType(expr), false, false, false, &less, &equal, &greater, &hashable);
		if (sort->sortop != less && sort->sortop != greater)
			Refuse(w, exprLocation(expr), "ORDER BY ... USING", "Order by the type's own order.");
		CheckCollation(w, exprCollation(expr), expr);
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonKey(&w->out, "expr");
		WriteExpr(w, expr);
		AppendJsonBool(&w->out, "desc", sort->sortop == greater);
		AppendJsonBool(&w->out, "nulls_first", sort->nulls_first);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
}

/* The same for a set operation, which can be ordered by its own columns only. */
static void
WriteColumnOrder(Writer *w, Query *query)
{
	ListCell   *lc;

	AppendJsonKey(&w->out, "order");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->sortClause)
	{
		SortGroupClause *sort = lfirst_node(SortGroupClause, lc);
		TargetEntry *tle = get_sortgroupclause_tle(sort, query->targetList);
		Oid			less,
					equal,
					greater;
		bool		hashable;

		get_sort_group_operators(exprType((Node *) tle->expr), false, false, false, &less, &equal, &greater, &hashable);
		if (tle->resjunk || (sort->sortop != less && sort->sortop != greater))
			Refuse(w, exprLocation((Node *) tle->expr), "ORDER BY ... USING", "Order by the type's own order.");
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonInt(&w->out, "column", tle->resno);
		AppendJsonBool(&w->out, "desc", sort->sortop == greater);
		AppendJsonBool(&w->out, "nulls_first", sort->nulls_first);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
}

/* "targets", "having", "order", "group", "aggs": what an inner level hands up */
static void
WriteTargets(Writer *w, Query *query)
{
	List	   *groups = w->groups,
			   *aggs = w->aggs;
	bool		grouped = query->hasAggs || query->groupClause || query->havingQual;
	ListCell   *lc;

	w->groups = w->aggs = NIL;
	foreach(lc, query->groupClause)
		w->groups = lappend(w->groups, get_sortgroupclause_tle(lfirst(lc), query->targetList)->expr);

	AppendJsonBool(&w->out, "grouped", grouped);
	w->grouped = grouped;
	AppendJsonKey(&w->out, "targets");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->resjunk)
			continue;
		if (query->distinctClause)
			CheckCollation(w, exprCollation((Node *) tle->expr), (Node *) tle->expr);
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonString(&w->out, "name", tle->resname);
		AppendJsonKey(&w->out, "expr");
		WriteExpr(w, (Node *) tle->expr);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "having");
	WriteExpr(w, query->havingQual);
	WriteOrder(w, query);
	w->grouped = false;

	AppendJsonKey(&w->out, "group");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, w->groups)
		WriteGroup(w, lfirst(lc), NULL);
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "aggs");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, w->aggs)
	{
		Aggref	   *agg = lfirst_node(Aggref, lc);

		AppendJsonKey(&w->out, NULL);
		WriteAggregate(w, agg, get_func_name(agg->aggfnoid));
	}
	appendStringInfoChar(&w->out, ']');
	w->groups = groups;
	w->aggs = aggs;
}

/* UNION, INTERSECT, EXCEPT: a tree whose leaves are subqueries */
static void
WriteSetOperation(Writer *w, Query *query, Node *node, bool top)
{
	static const char *const names[] = {
		[SETOP_UNION] = "union",[SETOP_INTERSECT] = "intersect",[SETOP_EXCEPT] = "except"
	};
	SetOperationStmt *op;
	ListCell   *type,
			   *lc;

	check_stack_depth();
	if (IsA(node, RangeTblRef))
	{
		WriteLevel(w, rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable)->subquery);
		return;
	}
	op = castNode(SetOperationStmt, node);
	appendStringInfoChar(&w->out, '{');
	AppendJsonString(&w->out, "setop", names[op->op]);
	AppendJsonBool(&w->out, "all", op->all);
	AppendJsonKey(&w->out, "left");
	WriteSetOperation(w, query, op->larg, false);
	AppendJsonKey(&w->out, "right");
	WriteSetOperation(w, query, op->rarg, false);
	AppendJsonKey(&w->out, "columns");
	appendStringInfoChar(&w->out, '[');
	lc = list_head(query->targetList);
	foreach(type, op->colTypes)
	{
		Oid			collation = list_nth_oid(op->colCollations, foreach_current_index(type));

		CheckCollation(w, collation, NULL);
		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonString(&w->out, "name", lc ? lfirst_node(TargetEntry, lc)->resname : NULL);
		AppendJsonString(&w->out, "type", ShortTypeName(lfirst_oid(type)));
		appendStringInfoChar(&w->out, '}');
		if (lc)
			lc = lnext(query->targetList, lc);
	}
	appendStringInfoChar(&w->out, ']');
	if (top)
	{
		WriteLimits(w, query);
		WriteColumnOrder(w, query);
	}
	else
		appendStringInfoString(&w->out, ",\"limit\":null,\"offset\":null");
	appendStringInfoChar(&w->out, '}');
}

/* A level below the release. */
static void
WriteLevel(Writer *w, Query *query)
{
	Query	   *outer = w->query;
	bool		grouped = w->grouped;

	CheckLevel(w, query);
	w->query = query;
	w->grouped = false;
	if (query->setOperations)
		WriteSetOperation(w, query, query->setOperations, true);
	else
	{
		appendStringInfoChar(&w->out, '{');
		WriteSources(w, query);
		WriteTargets(w, query);
		AppendJsonBool(&w->out, "distinct", query->distinctClause != NIL);
		WriteLimits(w, query);
		appendStringInfoChar(&w->out, '}');
	}
	w->query = outer;
	w->grouped = grouped;
}

/* The release itself: its target list is its keys, then its aggregates (rewrite.c). */
static void
WriteRelease(Writer *w, Query *query, List *argmax)
{
	ListCell   *lc;

	CheckLevel(w, query);
	w->query = query;
	appendStringInfoChar(&w->out, '{');
	WriteSources(w, query);
	AppendJsonKey(&w->out, "group");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->ressortgroupref != 0)
			WriteGroup(w, (Node *) tle->expr, tle->resname);
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
	if (argmax)
	{
		AppendJsonKey(&w->out, "argmax");
		appendStringInfo(&w->out, "{\"agg\":%d,\"of\":[", linitial_int(argmax));
		for_each_from(lc, argmax, 1)
		{
			AppendJsonKey(&w->out, NULL);
			appendStringInfo(&w->out, "%d", lfirst_int(lc));
		}
		appendStringInfoString(&w->out, "]}");
	}
	AppendJsonBool(&w->out, "distinct", false);
	WriteLimits(w, query);
	appendStringInfoChar(&w->out, '}');
}

/* The members "tables" and "select" of a request. */
char *
SerialiseRelease(Query *release, List *argmax, const char *source, List **tables)
{
	Writer		w = {.source = source};
	StringInfoData result;
	ListCell   *lc;

	initStringInfo(&w.out);
	WriteRelease(&w, release, argmax);
	GuardRelease(release, source);

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
