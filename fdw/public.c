/*
 * public.c: relations of a release that are no camera's travel as rows.
 *
 * VALUES and ordinary tables are read here, in the analyst's session, with its
 * rights, its row security and its snapshot, before the engine is asked; what
 * was read is what is judged and what is joined. Nothing of them is looked at
 * again afterwards.
 *
 * A table is read from its beginning to its end, and not planned: planning
 * would evaluate expressions of its owner (in indexes, statistics, keys of
 * partitions, constraints) with the rights of whoever asks. Conditions of its
 * row security are evaluated, if they are made of what may be called.
 */
#include "writer.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/tupconvert.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Bytes of a whole level with all its public rows. */
#define MAX_PUBLIC_BYTES (8 * 1024 * 1024)

typedef struct PublicRows
{
	StringInfo	out;			/* JSON rows */
	int			rows;
	List	   *columns;		/* Var: those that the level uses, in their order */
} PublicRows;

typedef struct ColumnContext
{
	int			rel;
	Bitmapset  *seen;
	List	   *columns;
} ColumnContext;

/* For list_sort: columns by their number. */
static int
ByNumber(const ListCell *a, const ListCell *b)
{
	return lfirst_node(Var, a)->varattno - lfirst_node(Var, b)->varattno;
}

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

		if (var->varno == context->rel && var->varlevelsup == 0 && var->varattno > 0 &&
			!bms_is_member(var->varattno, context->seen))
		{
			context->seen = bms_add_member(context->seen, var->varattno);
			context->columns = lappend(context->columns, var);
		}
		return false;
	}
	return expression_tree_walker(node, ColumnWalker, context);
}

/* The same as a list of Var, in the order of the relation. */
static List *
ColumnsOf(Query *query, int rel)
{
	ColumnContext context = {.rel = rel};

	ColumnWalker((Node *) query->targetList, &context);
	ColumnWalker((Node *) query->jointree, &context);
	ColumnWalker(query->havingQual, &context);
	list_sort(context.columns, ByNumber);
	return context.columns;
}

/* One row as JSON; false when there are too many. */
static bool
AppendRow(PublicRows *rows, Datum *values, bool *nulls)
{
	ListCell   *lc;

	CHECK_FOR_INTERRUPTS();
	OpenJson(rows->out, NULL, '[');
	foreach(lc, rows->columns)
	{
		Var		   *var = lfirst_node(Var, lc);
		char	   *value = NULL;
		Oid			output;
		bool		varlena;

		getTypeOutputInfo(var->vartype, &output, &varlena);
		if (!nulls[var->varattno - 1])
			value = OidOutputFunctionCall(output, values[var->varattno - 1]);
		AppendJsonString(rows->out, NULL, value);
	}
	appendStringInfoChar(rows->out, ']');
	return ++rows->rows <= MAX_PUBLIC_ROWS && rows->out->len <= MAX_PUBLIC_BYTES;
}

/* Read VALUES, all of them constants; false if they are too many. */
static bool
ReadValues(PublicRows *rows, RangeTblEntry *rte)
{
	ListCell   *row,
			   *lc;

	foreach(row, rte->values_lists)
	{
		Datum	   *values = palloc(sizeof(Datum) * list_length(lfirst(row)));
		bool	   *nulls = palloc(sizeof(bool) * list_length(lfirst(row)));

		foreach(lc, lfirst_node(List, row))
		{
			values[foreach_current_index(lc)] = lfirst_node(Const, lc)->constvalue;
			nulls[foreach_current_index(lc)] = lfirst_node(Const, lc)->constisnull;
		}
		if (!AppendRow(rows, values, nulls))
			return false;
	}
	return true;
}

/* Read a table's own rows, as those of the table that was asked for; false if they are too many. */
static bool
ReadOne(PublicRows *rows, Relation rel, Relation asked, ExprState *policy, EState *estate)
{
	ExprContext *econtext = GetPerTupleExprContext(estate);
	TupleDesc	desc = RelationGetDescr(asked);
	TupleConversionMap *map = convert_tuples_by_name(RelationGetDescr(rel), desc);
	TupleTableSlot *read = table_slot_create(rel, NULL);
	TupleTableSlot *row = map ? MakeSingleTupleTableSlot(desc, &TTSOpsVirtual) : read;
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	bool		fits = true;

	while (fits && table_scan_getnextslot(scan, ForwardScanDirection, read))
	{
		MemoryContext caller = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));

		if (map)
			execute_attr_map_slot(map->attrMap, read, row);
		slot_getallattrs(row);
		econtext->ecxt_scantuple = row;
		if (ExecQual(policy, econtext))
			fits = AppendRow(rows, row->tts_values, row->tts_isnull);
		MemoryContextSwitchTo(caller);
		ResetPerTupleExprContext(estate);
	}
	table_endscan(scan);
	if (map)
		ExecDropSingleTupleTableSlot(row);
	ExecDropSingleTupleTableSlot(read);
	return fits;
}

/* Read a table and its children or partitions; false if their rows are too many. */
static bool
ReadTable(PublicRows *rows, RangeTblEntry *rte, List *family)
{
	Relation	asked = table_open(rte->relid, AccessShareLock);
	EState	   *estate = CreateExecutorState();
	ExprState  *policy;
	bool		pushed = !ActiveSnapshotSet();
	bool		fits = true;
	ListCell   *lc;

	ExecCheckRTPerms(list_make1(rte), true);
	if (!RelationIsScannable(asked))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("materialized view \"%s\" has not been populated", RelationGetRelationName(asked)),
				 errhint("Use the REFRESH MATERIALIZED VIEW command.")));
	policy = ExecPrepareQual(rte->securityQuals, estate);
	if (pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	foreach(lc, family)
	{
		Relation	rel = table_open(lfirst_oid(lc), NoLock);

		if (fits && RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) && !RELATION_IS_OTHER_TEMP(rel))
			fits = ReadOne(rows, rel, asked, policy, estate);
		table_close(rel, NoLock);
	}
	if (pushed)
		PopActiveSnapshot();
	FreeExecutorState(estate);
	table_close(asked, NoLock);
	return fits;
}

/* Is there anything in a condition of row security but plain expressions over the row? */
static bool
IsNoPlainCondition(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((Var *) node)->varattno <= 0 || ((Var *) node)->varlevelsup > 0;
		case T_List:
		case T_Const:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_ArrayExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_SQLValueFunction:
		case T_NullTest:
		case T_BooleanTest:
			return expression_tree_walker(node, IsNoPlainCondition, context);
		default:
			return true;
	}
}

/*
 * Does a view or rule of another role's show rows of a table that whoever asks
 * could not read otherwise? Values of a public column are listed as they are,
 * whatever else the view says of their rows.
 */
static bool
IsLent(RangeTblEntry *rte)
{
	RangeTblEntry *own;
	Relation	rel;
	bool		secured;

	if (!OidIsValid(rte->checkAsUser) || rte->checkAsUser == GetUserId())
		return false;
	own = copyObject(rte);
	own->checkAsUser = InvalidOid;
	rel = table_open(rte->relid, AccessShareLock);
	secured = rel->rd_rel->relrowsecurity;
	table_close(rel, NoLock);
	return secured || !ExecCheckRTPerms(list_make1(own), false);
}

/* What is in the way of reading a table, with its children and partitions; or NULL. */
static const char *
TableProblem(RangeTblEntry *rte, List *family)
{
	Node	   *policy = (Node *) rte->securityQuals;
	Refusal		ignored;
	ListCell   *lc;

	if (rte->relid < FirstNormalObjectId)
		return "a system catalog";
	if (IsLent(rte))
		return "a table that you may read through a view only";
	foreach(lc, family)
	{
		char		kind = get_rel_relkind(lfirst_oid(lc));

		if (!RELKIND_HAS_TABLE_AM(kind) && kind != RELKIND_PARTITIONED_TABLE)
			return "this kind of relation";
	}
	if (IsNoPlainCondition(policy, NULL) || FindForeignCode(policy, &ignored))
		return "a table whose row security policy is no plain condition on its columns";
	return NULL;
}

/* What is in the way of reading VALUES, or NULL. */
static const char *
ValuesProblem(RangeTblEntry *rte)
{
	ListCell   *row,
			   *cell;

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
	bool		table = rte->rtekind == RTE_RELATION;
	List	   *family = table && rte->inh ? find_all_inheritors(rte->relid, AccessShareLock, NULL)
		: list_make1_oid(rte->relid);
	const char *problem = table ? TableProblem(rte, family) : ValuesProblem(rte);
	PublicRows	rows = {.out = &w->out,.columns = ColumnsOf(w->query, rel)};
	int			start = w->out.len;
	ListCell   *lc;

	if (problem)
	{
		WriteRefusal(w, -1, problem, table && IsLent(rte) ? "Its owner can grant you SELECT on it; it must not have row security." : NULL);
		return;
	}
	AppendJsonString(&w->out, "kind", "rows");
	AppendJsonInt(&w->out, "rel", rel);
	AppendJsonString(&w->out, "alias", rte->eref->aliasname);
	OpenJson(&w->out, "columns", '[');
	foreach(lc, rows.columns)
	{
		Var		   *var = lfirst_node(Var, lc);

		OpenJson(&w->out, NULL, '{');
		AppendJsonString(&w->out, "name", ColumnName(rte, var));
		AppendJsonInt(&w->out, "number", var->varattno);
		AppendJsonString(&w->out, "type", ShortTypeName(var->vartype));
		if (get_typtype(var->vartype) == TYPTYPE_ENUM)
			AppendLabels(&w->out, var->vartype);
		appendStringInfoChar(&w->out, '}');
	}
	appendStringInfoChar(&w->out, ']');
	OpenJson(&w->out, "rows", '[');
	if (!(table ? ReadTable(&rows, rte, family) : ReadValues(&rows, rte)))
	{
		w->out.len = start;
		w->out.data[start] = '\0';
		WriteRefusal(w, -1, psprintf("\"%s\", with which there are more than %d public rows or %d bytes", rte->eref->aliasname, MAX_PUBLIC_ROWS,
									 MAX_PUBLIC_BYTES), "Choose its rows in a smaller table.");
		return;
	}
	appendStringInfoChar(&w->out, ']');
}
