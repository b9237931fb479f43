/*
 * scan.c: the foreign-data wrapper. Both libraries have it; who may scan what
 * is said by owner.c in the served database and by room.c in the room.
 */
#include "shared.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(privid_fdw_handler);

/* fdw_state: the rows, once the first is asked for, and the memory that they and their connection live in */
typedef struct CameraScan
{
	RowReader  *reader;
	MemoryContext memory;
	bool		declared;		/* of a cursor */
} CameraScan;

/* Estimates are made of nothing that a video could change. */
static void
prividGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	baserel->rows = baserel->tuples = PlanScan(root, baserel, foreigntableid);
}

/* The only path. */
static void
prividGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	add_path(baserel, (Path *)
			 create_foreignscan_path(root, baserel, NULL, baserel->rows, 0, baserel->rows * cpu_tuple_cost, NIL,
									 baserel->lateral_relids, NULL, NIL));
}

/* The plan node. */
static ForeignScan *
prividGetForeignPlan(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid, ForeignPath *best_path,
					 List *tlist, List *scan_clauses, Plan *outer_plan)
{
	return make_foreignscan(tlist, extract_actual_clauses(scan_clauses, false), baserel->relid,
							NIL, NIL, NIL, NIL, outer_plan);
}

/* Nothing is asked yet; a plan that is only explained asks nothing. */
static void
prividBeginForeignScan(ForeignScanState *node, int eflags)
{
	CameraScan *state = node->fdw_state = palloc0(sizeof(CameraScan));

	state->declared = BeginScan(RelationGetRelid(node->ss.ss_currentRelation), node->ss.ps.state->es_sourceText);
	state->memory = AllocSetContextCreate(node->ss.ps.state->es_query_cxt, "privid scan", ALLOCSET_DEFAULT_SIZES);
}

/* Ask the engine for the rows of this scan, on a connection of its own. */
static RowReader *
BeginRows(Relation rel)
{
	RowStream  *stream = OpenStream();
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	AppendScan(&out, RelationGetRelid(rel), stream);
	appendStringInfoChar(&out, '}');
	AskRows(stream, out.data);
	return MakeRowReader(rel, stream);
}

/* The next row. */
static TupleTableSlot *
prividIterateForeignScan(ForeignScanState *node)
{
	CameraScan *state = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	CheckFetch(RelationGetRelid(node->ss.ss_currentRelation), state->declared, node->ss.ps.state->es_sourceText);
	if (state->reader == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(state->memory);

		state->reader = BeginRows(node->ss.ss_currentRelation);
		MemoryContextSwitchTo(caller);
	}
	ExecClearTuple(slot);
	if (NextRow(state->reader, slot))
		ExecStoreVirtualTuple(slot);
	return slot;
}

/* The same rows again: the engine is asked again. */
static void
prividReScanForeignScan(ForeignScanState *node)
{
	CameraScan *state = node->fdw_state;

	MemoryContextReset(state->memory);
	state->reader = NULL;
}

/* Memory goes with the query. */
static void
prividEndForeignScan(ForeignScanState *node)
{
}

/* Which camera an owner reads. */
static void
prividExplainForeignScan(ForeignScanState *node, ExplainState *es)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(RelationGetRelid(node->ss.ss_currentRelation))->serverid);

	ExplainPropertyText("Camera", server->servername, es);
}

/* The wrapper's callbacks. */
Datum
privid_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	CheckPreloaded();
	routine->GetForeignRelSize = prividGetForeignRelSize;
	routine->GetForeignPaths = prividGetForeignPaths;
	routine->GetForeignPlan = prividGetForeignPlan;
	routine->BeginForeignScan = prividBeginForeignScan;
	routine->IterateForeignScan = prividIterateForeignScan;
	routine->ReScanForeignScan = prividReScanForeignScan;
	routine->EndForeignScan = prividEndForeignScan;
	routine->ExplainForeignScan = prividExplainForeignScan;
	PG_RETURN_POINTER(routine);
}
