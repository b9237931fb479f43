/*
 * scan.c: the foreign-data wrapper. Its scans work for releases and for owners.
 *
 * A second lock on the door: whatever the planner hook let through, a scan
 * fetches rows only for the release whose inner plan it is part of, or for the
 * owner of the camera who asked for raw rows.
 */
#include "privid.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(privid_fdw_handler);

typedef struct CameraScan
{
	RowReader  *reader;			/* NULL until the first row is asked for */
	uint64		nonce;			/* of the release, 0 for raw rows */
} CameraScan;

/* fdw_private: the nonce as two integers */
#define PackNonce(nonce) list_make2(makeInteger((int) ((nonce) >> 32)), makeInteger((int) (uint32) (nonce)))
#define UnpackNonce(list) \
	(((uint64) (uint32) intVal(linitial(list)) << 32) | (uint32) intVal(lsecond(list)))

/* Estimates are made of nothing that a video could change. */
static void
prividGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	CheckPreloaded();
	if (!(planning && planning->inner && planning_nonce != 0))
		(void) MayReadRaw(foreigntableid, true);
	baserel->rows = 1000;
	baserel->tuples = 1000;
}

static void
prividGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	add_path(baserel, (Path *)
			 create_foreignscan_path(root, baserel, NULL, baserel->rows, 1000, 2000, NIL,
									 baserel->lateral_relids, NULL, NIL));
}

static ForeignScan *
prividGetForeignPlan(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid, ForeignPath *best_path,
					 List *tlist, List *scan_clauses, Plan *outer_plan)
{
	uint64		nonce = planning && planning->inner ? planning_nonce : 0;

	return make_foreignscan(tlist, extract_actual_clauses(scan_clauses, false), baserel->relid,
							NIL, PackNonce(nonce), NIL, NIL, outer_plan);
}

static void
prividBeginForeignScan(ForeignScanState *node, int eflags)
{
	CameraScan  *state = palloc0(sizeof(CameraScan));

	state->nonce = UnpackNonce(((ForeignScan *) node->ss.ps.plan)->fdw_private);
	node->fdw_state = state;
	if (state->nonce == 0)
		(void) MayReadRaw(RelationGetRelid(node->ss.ss_currentRelation), true);
	else if (current_release == NULL || current_release->nonce != state->nonce)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_RAW_ROWS),
				 errmsg("a scan of raw rows has outlived its release")));
}

/* The number of the table in the release's request. */
static int
TableNumber(Oid relid)
{
	ListCell   *lc;

	foreach(lc, current_release->tables)
		if (lfirst_oid(lc) == relid)
			return foreach_current_index(lc);
	elog(ERROR, "table is not part of the release");
	return -1;
}

/* A handle for raw rows of one table; the engine hears only of tables that MayReadRaw passed. */
static char *
RawHandle(Oid relid)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	AppendJsonKey(&out, "tables");
	appendStringInfoChar(&out, '[');
	AppendTable(&out, relid);
	appendStringInfoChar(&out, ']');
	AppendSettings(&out);
	appendStringInfoChar(&out, '}');
	return JsonFieldString(Ask('W', out.data, 'r', 0, NULL), "handle");
}

/* Fetch everything the engine has for this scan. */
static void
FetchRows(ForeignScanState *node)
{
	CameraScan  *state = node->fdw_state;
	MemoryContext caller = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	Oid			relid = RelationGetRelid(node->ss.ss_currentRelation);
	RowReader  *reader = MakeRowReader(node->ss.ss_currentRelation);
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	if (state->nonce == 0)
	{
		(void) MayReadRaw(relid, true);
		AppendJsonString(&out, "handle", RawHandle(relid));
		AppendJsonInt(&out, "table", 0);
	}
	else
	{
		AppendJsonString(&out, "handle", current_release->handle);
		AppendJsonInt(&out, "table", TableNumber(relid));
	}
	appendStringInfoChar(&out, '}');
	AskRows(out.data, reader);
	state->reader = reader;
	MemoryContextSwitchTo(caller);
}

static TupleTableSlot *
prividIterateForeignScan(ForeignScanState *node)
{
	CameraScan  *state = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (state->reader == NULL)
		FetchRows(node);
	ExecClearTuple(slot);
	if (NextRow(state->reader, slot))
		ExecStoreVirtualTuple(slot);
	return slot;
}

static void
prividReScanForeignScan(ForeignScanState *node)
{
	CameraScan  *state = node->fdw_state;

	if (state->reader)
		RewindRows(state->reader);
}

static void
prividEndForeignScan(ForeignScanState *node)
{
}

static void
prividExplainForeignScan(ForeignScanState *node, ExplainState *es)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(RelationGetRelid(node->ss.ss_currentRelation))->serverid);

	ExplainPropertyText("Camera", server->servername, es);
}

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
