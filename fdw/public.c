/*
 * public.c: relations of a release that are no camera's travel as rows.
 *
 * VALUES and ordinary tables are read here, in the analyst's session, with its
 * rights, its row security and its snapshot, before the engine is asked; what
 * was read is what is judged and what is joined. Nothing of them is looked at
 * again afterwards.
 */
#include "writer.h"

#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

/* What one public relation of a release may hold. */
#define MAX_PUBLIC_ROWS 100000
#define MAX_PUBLIC_BYTES (4 * 1024 * 1024)

typedef struct RowsReceiver
{
	DestReceiver pub;
	StringInfo	out;			/* JSON rows */
	FmgrInfo   *output;
	int64		rows;
	int			begun;			/* where they begin in out */
} RowsReceiver;

/* DestReceiver: look the output functions up. */
static void
RowsStartup(DestReceiver *self, int operation, TupleDesc desc)
{
	RowsReceiver *receiver = (RowsReceiver *) self;

	receiver->output = palloc(sizeof(FmgrInfo) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Oid			function;
		bool		varlena;

		getTypeOutputInfo(TupleDescAttr(desc, i)->atttypid, &function, &varlena);
		fmgr_info(function, &receiver->output[i]);
	}
}

/* DestReceiver: one row as JSON; false ends the scan when there are too many. */
static bool
RowsReceive(TupleTableSlot *slot, DestReceiver *self)
{
	RowsReceiver *receiver = (RowsReceiver *) self;

	slot_getallattrs(slot);
	AppendJsonKey(receiver->out, NULL);
	appendStringInfoChar(receiver->out, '[');
	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
		AppendJsonString(receiver->out, NULL, slot->tts_isnull[i] ? NULL
						 : OutputFunctionCall(&receiver->output[i], slot->tts_values[i]));
	appendStringInfoChar(receiver->out, ']');
	return ++receiver->rows <= MAX_PUBLIC_ROWS && receiver->out->len - receiver->begun <= MAX_PUBLIC_BYTES;
}

/* DestReceiver: nothing to do at the end. */
static void
RowsShutdown(DestReceiver *self)
{
}

/* Run a query over public data; its rows are appended as JSON. False if they are too many. */
static bool
RunPublic(Query *query, const char *source, StringInfo out)
{
	RowsReceiver receiver = {.out = out,.begun = out->len};
	bool		pushed = !ActiveSnapshotSet();
	QueryDesc  *desc;

	receiver.pub.receiveSlot = RowsReceive;
	receiver.pub.rStartup = RowsStartup;
	receiver.pub.rShutdown = RowsShutdown;
	receiver.pub.rDestroy = RowsShutdown;
	receiver.pub.mydest = DestNone;
	if (pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	desc = CreateQueryDesc(pg_plan_query(query, source, 0, NULL), "", GetActiveSnapshot(), InvalidSnapshot,
						   &receiver.pub, NULL, NULL, 0);
	ExecutorStart(desc, 0);
	ExecutorRun(desc, ForwardScanDirection, 0, true);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	if (pushed)
		PopActiveSnapshot();
	return receiver.rows <= MAX_PUBLIC_ROWS && out->len - receiver.begun <= MAX_PUBLIC_BYTES;
}

typedef struct ColumnContext
{
	int			rel;
	Bitmapset  *columns;
} ColumnContext;

/* Which columns of a relation does its level use? */
static bool
ColumnWalker(Node *node, void *arg)
{
	ColumnContext *context = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varno == context->rel && var->varlevelsup == 0 && var->varattno > 0)
			context->columns = bms_add_member(context->columns, var->varattno);
		return false;
	}
	return expression_tree_walker(node, ColumnWalker, context);
}

/* SELECT the columns that are used FROM the entry, as a query of its own */
static Query *
QueryForEntry(Writer *w, RangeTblEntry *rte, int rel)
{
	Query	   *query = makeNode(Query);
	ColumnContext context = {rel, NULL};
	RangeTblRef *ref = makeNode(RangeTblRef);
	int			column = -1;

	ColumnWalker((Node *) w->query->targetList, &context);
	ColumnWalker((Node *) w->query->jointree, &context);
	ColumnWalker(w->query->havingQual, &context);
	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->rtable = list_make1(copyObject(rte));
	/* its row security speaks of it by the number that it had */
	ChangeVarNodes((Node *) linitial_node(RangeTblEntry, query->rtable)->securityQuals, rel, 1, 0);
	ref->rtindex = 1;
	query->jointree = makeFromExpr(list_make1(ref), NULL);
	while ((column = bms_next_member(context.columns, column)) >= 0)
	{
		Oid			type,
					collation;
		int32		typmod;

		if (rte->rtekind == RTE_RELATION)
			get_atttypetypmodcoll(rte->relid, column, &type, &typmod, &collation);
		else
		{
			type = list_nth_oid(rte->coltypes, column - 1);
			typmod = list_nth_int(rte->coltypmods, column - 1);
			collation = list_nth_oid(rte->colcollations, column - 1);
		}
		query->targetList = lappend(query->targetList,
									makeTargetEntry((Expr *) makeVar(1, column, type, typmod, collation, 0),
													list_length(query->targetList) + 1,
													get_rte_attribute_name(rte, column), false));
	}
	return query;
}

/* A subquery in a policy, whose relations would need checks of their own. */
static bool
HasSubLinkWalker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, SubLink) || IsA(node, Query) || expression_tree_walker(node, HasSubLinkWalker, context);
}

/* What is in the way of reading this entry, or NULL. */
static const char *
PublicProblem(RangeTblEntry *rte, Query *query)
{
	Refusal		ignored;
	ListCell   *row,
			   *cell;

	if (rte->rtekind == RTE_RELATION)
	{
		if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW && rte->relkind != RELKIND_PARTITIONED_TABLE)
			return "this kind of relation";
		if (rte->relid < FirstNormalObjectId)
			return "a system catalog";
		if (HasSubLinkWalker((Node *) rte->securityQuals, NULL) || FindForeignCode(query, &ignored))
			return "a table whose row security policy has a subquery or calls a user's function";
		return NULL;
	}
	foreach(row, rte->values_lists)
		foreach(cell, lfirst_node(List, row))
		if (!IsA(lfirst(cell), Const))
		return "VALUES that are not constant";
	return NULL;
}

/* {"kind": "rows", ...}: a table or VALUES, with what is in it now */
void
WritePublic(Writer *w, RangeTblEntry *rte, int rel)
{
	Query	   *query = QueryForEntry(w, rte, rel);
	const char *problem = PublicProblem(rte, query);
	int			start = w->out.len;
	ListCell   *lc;

	if (problem)
	{
		WriteRefusal(w, -1, problem, NULL);
		return;
	}
	AppendJsonString(&w->out, "kind", "rows");
	AppendJsonInt(&w->out, "rel", rel);
	AppendJsonString(&w->out, "alias", rte->eref->aliasname);
	AppendJsonKey(&w->out, "columns");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = castNode(Var, tle->expr);
		Oid			type = getBaseType(var->vartype);

		AppendJsonKey(&w->out, NULL);
		appendStringInfoChar(&w->out, '{');
		AppendJsonString(&w->out, "name", tle->resname);
		AppendJsonInt(&w->out, "number", var->varattno);
		AppendJsonString(&w->out, "type", ShortTypeName(type));
		if (get_typtype(type) == TYPTYPE_ENUM)
			AppendLabels(&w->out, type);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	AppendJsonKey(&w->out, "rows");
	appendStringInfoChar(&w->out, '[');
	if (!RunPublic(query, w->source, &w->out))
	{
		w->out.len = start;
		w->out.data[start] = '\0';
		WriteRefusal(w, -1, psprintf("\"%s\" with more than %d rows or %d bytes", rte->eref->aliasname, MAX_PUBLIC_ROWS,
									 MAX_PUBLIC_BYTES), "Choose its rows in a smaller table.");
		return;
	}
	appendStringInfoChar(&w->out, ']');
}
