/*
 * serialise.c: the query levels and relations of a release as JSON
 * (docs/protocol.md). Expressions are in expressions.c, rows of public
 * relations in public.c.
 *
 * Default deny here as there: what has no form is written as a refusal. Nothing
 * is decided about privacy; that is the engine's.
 */
#include "writer.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

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

	w->readers = lappend(w->readers, list_make2_oid(user, serverid));
	AppendJsonString(&w->out, "kind", "table");
	AppendJsonInt(&w->out, "rel", rel);
	AppendJsonInt(&w->out, "table", number);
}

/* What is in the way of using this range table entry, or NULL. */
static const char *
EntryProblem(RangeTblEntry *rte)
{
	if (rte->lateral)
		return "LATERAL";
	if (rte->tablesample)
		return "TABLESAMPLE";
	if (IsPrividEntry(rte) && HasFamily(rte->relid))
		return "a foreign table of a camera with inheritance";
	if (IsPrividEntry(rte) && rte->securityQuals)
		return "row-level security of a foreign table of a camera";
	return NULL;
}

/* One item of FROM. */
static void
WriteRte(Writer *w, int rel)
{
	RangeTblEntry *rte = rt_fetch(rel, w->query->rtable);
	const char *problem = EntryProblem(rte);

	appendStringInfoChar(&w->out, '{');
	if (problem)
		WriteRefusal(w, -1, problem, rte->lateral ? "Join the tables, or ask in two queries." : NULL);
	else if (IsPrividEntry(rte))
		WriteTable(w, rte, rel);
	else if (rte->rtekind == RTE_RELATION || rte->rtekind == RTE_VALUES)
		WritePublic(w, rte, rel);
	else if (rte->rtekind == RTE_SUBQUERY)
	{
		AppendJsonString(&w->out, "kind", "subquery");
		AppendJsonInt(&w->out, "rel", rel);
		AppendJsonString(&w->out, "alias", rte->eref->aliasname);
		AppendJsonKey(&w->out, "select");
		WriteLevel(w, rte->subquery);
	}
	else
	{
		AppendJsonString(&w->out, "kind", "other");
		AppendJsonString(&w->out, "what", rte->rtekind == RTE_CTE ? "cte" : "function");
		AppendJsonInt(&w->out, "loc", -1);
	}
	appendStringInfoChar(&w->out, '}');
}

/* One part of FROM: an item, or a join of parts. */
static void
WriteRel(Writer *w, Node *node)
{
	static const char *const names[] = {
		[JOIN_INNER] = "inner",[JOIN_LEFT] = "left",[JOIN_FULL] = "full",[JOIN_RIGHT] = "right"
	};
	JoinExpr   *join;

	check_stack_depth();
	if (IsA(node, RangeTblRef))
	{
		WriteRte(w, ((RangeTblRef *) node)->rtindex);
		return;
	}
	appendStringInfoChar(&w->out, '{');
	if (!IsA(node, JoinExpr) || ((JoinExpr *) node)->jointype > JOIN_RIGHT)
		WriteRefusal(w, -1, "this kind of join", NULL);
	else
	{
		join = (JoinExpr *) node;
		AppendJsonString(&w->out, "kind", "join");
		AppendJsonString(&w->out, "join", names[join->jointype]);
		AppendJsonKey(&w->out, "left");
		WriteRel(w, join->larg);
		AppendJsonKey(&w->out, "right");
		WriteRel(w, join->rarg);
		AppendJsonKey(&w->out, "on");
		WriteExpr(w, join->quals);
		AppendJsonInt(&w->out, "loc", exprLocation(join->quals));
	}
	appendStringInfoChar(&w->out, '}');
}

/* ------------------------------------------------------------------ query levels */

/* What no level of a release may contain, or NULL; *hint says what to do about it. */
static const char *
LevelProblem(Query *query, const char **hint)
{
	*hint = NULL;
	if (query->commandType != CMD_SELECT)
		return "a statement that changes data";
	if (query->rowMarks)
		return "FOR UPDATE or FOR SHARE";
	if (query->cteList)
		return "WITH RECURSIVE or a WITH that changes data";
	if (query->hasWindowFuncs)
		return "a window function";
	if (query->hasTargetSRFs)
		return "a set-returning function";
	if (query->limitOption == LIMIT_OPTION_WITH_TIES)
		return "FETCH FIRST ... WITH TIES";
	if (query->groupingSets)
	{
		*hint = "Ask for each grouping in a query of its own.";
		return "GROUPING SETS, ROLLUP or CUBE";
	}
	if (query->hasDistinctOn)
	{
		*hint = "Use DISTINCT, or GROUP BY with min or max.";
		return "DISTINCT ON";
	}
	return NULL;
}

/* "limit", "offset" */
static void
WriteLimits(Writer *w, Query *query)
{
	AppendJsonKey(&w->out, "limit");
	WriteExpr(w, query->limitCount);
	AppendJsonKey(&w->out, "offset");
	WriteExpr(w, query->limitOffset);
}

/* One group expression. */
static void
WriteGroup(Writer *w, Node *expr, const char *name)
{
	OpenJson(&w->out, NULL, '{');
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

	OpenJson(&w->out, "from", '[');
	foreach(lc, query->jointree->fromlist)
	{
		AppendJsonKey(&w->out, NULL);
		WriteRel(w, lfirst(lc));
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "where");
	WriteExpr(w, query->jointree->quals);
}

/* Does a sort go by the type's own order? *desc says in which direction. */
static bool
SortsByType(SortGroupClause *sort, Node *expr, bool *desc)
{
	Oid			less,
				equal,
				greater;
	bool		hashable;

	get_sort_group_operators(exprType(expr), false, false, false, &less, &equal, &greater, &hashable);
	*desc = sort->sortop == greater;
	return sort->sortop == less || sort->sortop == greater;
}

/*
 * "order": what a level sorts by. Which rows a LIMIT keeps depends on it, also
 * on expressions that are no column of the level. A set operation is ordered by
 * its own columns only.
 */
static void
WriteOrder(Writer *w, Query *query)
{
	ListCell   *lc;

	OpenJson(&w->out, "order", '[');
	foreach(lc, query->sortClause)
	{
		SortGroupClause *sort = lfirst_node(SortGroupClause, lc);
		TargetEntry *tle = get_sortgroupclause_tle(sort, query->targetList);
		bool		desc;

		OpenJson(&w->out, NULL, '{');
		if (!SortsByType(sort, (Node *) tle->expr, &desc) || (query->setOperations && tle->resjunk))
			WriteRefusal(w, exprLocation((Node *) tle->expr), "ORDER BY ... USING", "Order by the type's own order.");
		else if (query->setOperations)
			AppendJsonInt(&w->out, "column", tle->resno);
		else
		{
			AppendJsonKey(&w->out, "expr");
			WriteExpr(w, (Node *) tle->expr);
		}
		AppendJsonBool(&w->out, "desc", desc);
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
	OpenJson(&w->out, "targets", '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->resjunk)
			continue;
		OpenJson(&w->out, NULL, '{');
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

	OpenJson(&w->out, "group", '[');
	foreach(lc, w->groups)
		WriteGroup(w, lfirst(lc), NULL);
	appendStringInfoChar(&w->out, ']');
	OpenJson(&w->out, "aggs", '[');
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
	OpenJson(&w->out, "columns", '[');
	lc = list_head(query->targetList);
	foreach(type, op->colTypes)
	{
		const char *problem = CollationProblem(list_nth_oid(op->colCollations, foreach_current_index(type)), lfirst_oid(type));

		OpenJson(&w->out, NULL, '{');
		if (problem)
			WriteRefusal(w, -1, problem, "Leave COLLATE out, here and in the tables' definitions.");
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
		WriteOrder(w, query);
	}
	else
		appendStringInfoString(&w->out, ",\"limit\":null,\"offset\":null");
	appendStringInfoChar(&w->out, '}');
}

/* {"refused": ...}: a level that cannot be part of a release; false if it can */
static bool
WriteLevelProblem(Writer *w, Query *query)
{
	const char *hint;
	const char *problem = LevelProblem(query, &hint);

	check_stack_depth();
	if (problem == NULL && w->levels > MAX_LEVELS)
		problem = "a subquery nested that deep";
	if (problem == NULL)
		return false;
	appendStringInfoChar(&w->out, '{');
	WriteRefusal(w, -1, problem, hint);
	appendStringInfoChar(&w->out, '}');
	return true;
}

/* A level below the release. */
static void
WriteLevel(Writer *w, Query *query)
{
	Query	   *outer = w->query;
	bool		grouped = w->grouped;

	if (WriteLevelProblem(w, query))
		return;
	w->levels++;
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
	w->levels--;
}

/* "argmax": the aggregate, and the groups among which its largest is wanted */
static void
WriteArgmax(Writer *w, List *argmax)
{
	ListCell   *lc;

	AppendJsonKey(&w->out, "argmax");
	appendStringInfo(&w->out, "{\"agg\":%d,\"of\":[", linitial_int(argmax));
	for_each_from(lc, argmax, 1)
	{
		AppendJsonKey(&w->out, NULL);
		appendStringInfo(&w->out, "%d", lfirst_int(lc));
	}
	appendStringInfoString(&w->out, "]}");
}

/* The release itself: its target list is its keys, then its aggregates (split.c). */
void
WriteRelease(Writer *w, List *release)
{
	Query	   *query = ReleaseQuery(release);
	ListCell   *lc;

	if (WriteLevelProblem(w, query))
		return;
	w->query = query;
	appendStringInfoChar(&w->out, '{');
	WriteSources(w, query);
	OpenJson(&w->out, "group", '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->ressortgroupref != 0)
			WriteGroup(w, (Node *) tle->expr, tle->resname);
	}
	appendStringInfoChar(&w->out, ']');
	OpenJson(&w->out, "aggs", '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (tle->ressortgroupref != 0)
			continue;
		AppendJsonKey(&w->out, NULL);
		WriteAggregate(w, castNode(Aggref, tle->expr), tle->resname);
	}
	appendStringInfoChar(&w->out, ']');
	if (ReleaseArgmax(release))
		WriteArgmax(w, ReleaseArgmax(release));
	appendStringInfoChar(&w->out, '}');
}
