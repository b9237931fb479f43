/*
 * levels.c: which level of a statement is the release.
 *
 * The outermost level that aggregates raw rows is one. Where an aggregate
 * stands over other aggregates, several levels could be: then all of them
 * travel to the engine in one request, and it chooses. A level that shows raw
 * rows is refused, unless it is empty by its own words (LIMIT 0, WHERE false)
 * or lists distinct values, which is a grouping.
 */
#include "privid.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_param.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* ------------------------------------------------------------------ looking */

/* Does this level aggregate? */
static bool
Aggregates(Query *query)
{
	return query->hasAggs || query->groupClause || query->groupingSets || query->havingQual;
}

/* Do the rows of this level come from raw rows, without an aggregate in between? */
static bool
ShowsRaw(Query *query)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (IsPrividEntry(rte))
			return true;
		if (rte->rtekind == RTE_SUBQUERY && !Aggregates(rte->subquery) && ShowsRaw(rte->subquery))
			return true;
	}
	return false;
}

/* The query that a FROM item stands for, if it is one: a subquery, or a CTE of this level. */
static Query *
QueryOf(Query *query, RangeTblEntry *rte)
{
	ListCell   *lc;

	if (rte->rtekind == RTE_SUBQUERY)
		return rte->subquery;
	if (rte->rtekind == RTE_CTE && rte->ctelevelsup == 0 && !rte->self_reference)
		foreach(lc, query->cteList)
		{
			CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

			if (strcmp(cte->ctename, rte->ctename) == 0)
				return IsA(cte->ctequery, Query) ? (Query *) cte->ctequery : NULL;
		}
	return NULL;
}

/* Is there an aggregate over raw rows below this level? */
static bool
HasAggregateBelow(Query *query)
{
	ListCell   *lc;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	foreach(lc, query->rtable)
	{
		Query	   *below = QueryOf(query, lfirst_node(RangeTblEntry, lc));

		if (below && MentionsPrivid(below) && (Aggregates(below) || HasAggregateBelow(below)))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ common table expressions */

/* How much of a statement may be copied: a WITH query stands wherever it is named. */
#define MAX_COPIED_NODES 200000

/* Count nodes, and the columns of FROM items, until they are too many. */
static bool
CountWalker(Node *node, void *arg)
{
	int		   *count = arg;

	if (node == NULL)
		return false;
	if (++*count > MAX_COPIED_NODES)
		return true;
	if (IsA(node, RangeTblEntry))
	{
		*count += list_length(((RangeTblEntry *) node)->eref->colnames);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, CountWalker, count, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, CountWalker, count);
}

/* A copy of a query, unless the statement has made too many already. */
static Query *
CopyLevel(Query *query, Statement *statement)
{
	CHECK_FOR_INTERRUPTS();
	if (CountWalker((Node *) query, &statement->copied))
		ereport(ERROR,
				(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
				 errmsg("statement is too complex for a release"),
				 errdetail("A WITH query counts wherever it is named, with all that it names itself."),
				 errhint("Name WITH queries less often, or put what they have in common into one.")));
	return copyObject(query);
}

typedef struct InlineContext
{
	Statement  *statement;
	CommonTableExpr *cte;
	int			levelsup;
} InlineContext;

/* Put a copy of the CTE's query where the CTE is referenced. */
static bool
InlineWalker(Node *node, void *arg)
{
	InlineContext *context = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		context->levelsup++;
		query_tree_walker((Query *) node, InlineWalker, context, QTW_EXAMINE_RTES_AFTER);
		context->levelsup--;
		return false;
	}
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_CTE && strcmp(rte->ctename, context->cte->ctename) == 0 &&
			rte->ctelevelsup == context->levelsup)
		{
			rte->rtekind = RTE_SUBQUERY;
			rte->subquery = CopyLevel((Query *) context->cte->ctequery, context->statement);
			rte->security_barrier = false;
			if (context->levelsup > 0)
				IncrementVarSublevelsUp((Node *) rte->subquery, context->levelsup, 1);
			rte->ctename = NULL;
			rte->ctelevelsup = 0;
			rte->self_reference = false;
			rte->coltypes = NIL;
			rte->coltypmods = NIL;
			rte->colcollations = NIL;
			context->cte->cterefcount--;
		}
		return false;
	}
	return expression_tree_walker(node, InlineWalker, context);
}

/*
 * A CTE that hands raw rows up becomes a subquery, so that the aggregating
 * level sees through it. One that is a release stays: it is released once,
 * however often it is mentioned. A level that is a release with all that is
 * below it takes in all its CTEs.
 */
static void
InlineCtes(Query *query, bool all, Statement *statement)
{
	ListCell   *lc;

	foreach(lc, query->cteList)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);
		Query	   *body = (Query *) cte->ctequery;
		InlineContext context = {.statement = statement,.cte = cte,.levelsup = -1};

		if (!IsA(body, Query) || body->commandType != CMD_SELECT || cte->cterecursive || (!all && !MentionsPrivid(body)))
			continue;
		InlineCtes(body, all, statement);
		if (!all && (Aggregates(body) || !ShowsRaw(body)))
			continue;
		InlineWalker((Node *) query, &context);
		query->cteList = foreach_delete_current(query->cteList, lc);
	}
}

/* ------------------------------------------------------------------ choosing */

/*
 * The level and those below it as candidates, in the order in which they are
 * listed. Each is a copy: what is taken apart here is not what is planned.
 */
static Candidate *
MakeCandidate(Query *query, List **levels, Statement *statement)
{
	Candidate  *candidate = palloc0(sizeof(Candidate));
	ListCell   *lc;

	check_stack_depth();
	candidate->number = list_length(*levels);
	candidate->raw = ShowsRaw(query);
	*levels = lappend(*levels, query);
	if (Aggregates(query))
	{
		Query	   *copy = CopyLevel(query, statement);

		InlineCtes(copy, true, statement);
		candidate->release = DetachRelease(copy, &candidate->refusal);
	}
	foreach(lc, query->rtable)
	{
		Query	   *below = QueryOf(query, lfirst_node(RangeTblEntry, lc));

		if (below && MentionsPrivid(below))
			candidate->below = lappend(candidate->below, MakeCandidate(below, levels, statement));
	}
	return candidate;
}

/* Ask the engine which levels, this one or some below it, are the releases. */
static void
Choose(Query *query, Statement *statement)
{
	List	   *levels = NIL;
	Candidate  *top = MakeCandidate(query, &levels, statement);
	text	   *chosen;
	char	   *number;

	chosen = JsonField(Ask('T', RequestForChoice(top, statement->params, statement->source), 't', statement->source), "releases");
	if (chosen == NULL)
		elog(ERROR, "engine made no choice");
	statement->decided = list_concat(statement->decided, levels);
	for (int i = 0; (number = JsonElementString(chosen, i)) != NULL; i++)
	{
		int			place = pg_strtoint32(number);

		if (place < 0 || place >= list_length(levels))
			elog(ERROR, "engine chose a level that is not there");
		statement->chosen = lappend(statement->chosen, list_nth(levels, place));
	}
}

/* Is this aggregating level a release? */
static bool
IsRelease(Query *query, Statement *statement)
{
	bool		below = HasAggregateBelow(query);

	if (list_member_ptr(statement->decided, query))
		return list_member_ptr(statement->chosen, query);
	if (!ShowsRaw(query) && !below)
		return false;
	/* a plan that is made without knowing its parameters cannot ask; then the outer level is taken */
	if (!below || (statement->params == NULL && query_contains_extern_params(query)))
		return true;
	Choose(query, statement);
	return list_member_ptr(statement->chosen, query);
}

/* Keep the tables of what is taken out of the statement, for the executor's checks. */
static void
KeepEntries(Node *tree, Statement *statement)
{
	ListCell   *lc;

	foreach(lc, RelationsOf(tree))
	{
		RangeTblEntry *copy = copyObject(lfirst_node(RangeTblEntry, lc));

		copy->securityQuals = NIL;
		copy->inh = false;
		statement->entries = lappend(statement->entries, copy);
	}
}

/* Make the level a release. */
static void
MakeRelease(Query *query, Statement *statement)
{
	Refusal		refusal = {0};
	List	   *release;

	InlineCtes(query, true, statement);
	release = DetachRelease(query, &refusal);
	if (release == NIL)
		RaiseRefusal(&refusal, statement->source);
	KeepEntries((Node *) ReleaseQuery(release), statement);
}

/* ------------------------------------------------------------------ levels without rows */

/* Does the level say itself that it has no rows: LIMIT 0, WHERE false? */
static bool
IsEmpty(Query *query)
{
	Const	   *limit = (Const *) FoldConstants(query->limitCount);
	Const	   *where = (Const *) FoldConstants(query->jointree->quals);

	if (limit && IsA(limit, Const) && !limit->constisnull && DatumGetInt64(limit->constvalue) == 0)
		return true;
	return where && IsA(where, Const) && (where->constisnull || !DatumGetBool(where->constvalue));
}

/* SELECT NULL, ... WHERE false: a relation with these columns and no rows */
static Query *
MakeNothing(Oid relid)
{
	Query	   *query = makeNode(Query);
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->jointree = makeFromExpr(NIL, makeBoolConst(false, false));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Const	   *null = att->attisdropped ? makeNullConst(INT4OID, -1, InvalidOid)
			: makeNullConst(att->atttypid, att->atttypmod, att->attcollation);

		query->targetList = lappend(query->targetList,
									makeTargetEntry((Expr *) null, i + 1, pstrdup(NameStr(att->attname)), false));
	}
	table_close(rel, NoLock);
	return query;
}

/* Does anything here ask for a system column or a whole row, which a relation without rows does not have? */
static bool
AsksForMoreWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varattno <= 0;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, AsksForMoreWalker, context, 0);
	return expression_tree_walker(node, AsksForMoreWalker, context);
}

/* Let relations without rows stand for the raw ones of a level that is empty anyway. */
static void
EmptyLevel(Query *query, Statement *statement)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (IsPrividEntry(rte))
		{
			KeepEntries((Node *) rte, statement);
			rte->subquery = MakeNothing(rte->relid);
			rte->rtekind = RTE_SUBQUERY;
			rte->relid = InvalidOid;
			rte->relkind = 0;
			rte->rellockmode = 0;
			rte->inh = false;
			rte->requiredPerms = 0;
			rte->checkAsUser = InvalidOid;
			rte->selectedCols = NULL;
			rte->securityQuals = NIL;
			rte->tablesample = NULL;
		}
		else if (rte->rtekind == RTE_SUBQUERY && !Aggregates(rte->subquery))
			EmptyLevel(rte->subquery, statement);
	}
}

/* ------------------------------------------------------------------ walking the statement */

/* Process every query inside an expression or another query. */
static bool
ProcessWalker(Node *node, void *statement)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		ProcessQuery((Query *) node, statement);
		return false;
	}
	return expression_tree_walker(node, ProcessWalker, statement);
}

/* The table of a camera that this level reads itself, or 0. */
static Oid
RawTable(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
		if (IsPrividEntry(lfirst_node(RangeTblEntry, lc)))
			return lfirst_node(RangeTblEntry, lc)->relid;
	return InvalidOid;
}

/* Refuse a level that shows raw rows, or changes them. */
static void
RefuseLevel(Query *query, Oid relid, const char *source)
{
	if (query->resultRelation > 0 && IsPrividTable(rt_fetch(query->resultRelation, query->rtable)->relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("foreign table \"%s\" of a camera cannot be changed",
						get_rel_name(rt_fetch(query->resultRelation, query->rtable)->relid))));
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_RAW_ROWS),
			 errmsg("raw rows of foreign table \"%s\" cannot be shown", get_rel_name(relid)),
			 errdetail("Only aggregates with noise leave the database."),
			 errhint("Use count, or sum with range(column, low, high), over the whole table or with GROUP BY."),
			 errposition(CharacterPosition(source, exprLocation((Node *) query->targetList)))));
}

/* Put releases in place, here and in all that is below or beside. */
void
ProcessQuery(Query *query, Statement *statement)
{
	check_stack_depth();
	if (!MentionsPrivid(query))
		return;
	InlineCtes(query, false, statement);
	if (!Aggregates(query) && query->commandType == CMD_SELECT && ShowsRaw(query))
	{
		if (IsEmpty(query) && !AsksForMoreWalker((Node *) query, NULL))
			EmptyLevel(query, statement);
		else if (query->distinctClause && !query->hasDistinctOn && !query->hasWindowFuncs && !query->hasTargetSRFs)
		{
			/* SELECT DISTINCT x is GROUP BY x: which values there are is the keys' business */
			query->groupClause = query->distinctClause;
			query->distinctClause = NIL;
		}
	}
	if (Aggregates(query) && IsRelease(query, statement))
		MakeRelease(query, statement);
	else if (OidIsValid(RawTable(query)))
		RefuseLevel(query, RawTable(query), statement->source);
	/* subqueries beside a release (HAVING, select list) may be releases too */
	query_tree_walker(query, ProcessWalker, statement, 0);
}
