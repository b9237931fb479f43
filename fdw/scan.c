/*
 * scan.c: the foreign-data wrapper.
 *
 * Its scans have two users. In the room, the engine's own PostgreSQL, a foreign
 * table names a handle under which the engine gives rows out. In the served
 * database a scan is for the owner of the camera who asked for raw rows, and
 * for nobody else, whatever the planner hook let through.
 */
#include "privid.h"

#include "commands/defrem.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
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

/* An option of a foreign table of the room; NULL if it has none of that name. */
static char *
RoomOption(Oid relid, const char *name)
{
	ListCell   *lc;

	foreach(lc, GetForeignTable(relid)->options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			return defGetString(lfirst_node(DefElem, lc));
	return NULL;
}

/* Estimates are made of nothing that a video could change. */
static void
prividGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	char	   *most = privid_room ? RoomOption(foreigntableid, "rows") : NULL;

	CheckPreloaded();
	if (!privid_room && !IsApproved(planner_rt_fetch(baserel->relid, root)))
		RefuseRaw(foreigntableid);
	baserel->rows = baserel->tuples = most ? Max(strtod(most, NULL), 1) : 1000;
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
	Oid			relid = RelationGetRelid(node->ss.ss_currentRelation);
	CameraScan *state;

	if (!privid_room)
		CheckRawScan(relid, node->ss.ps.state->es_sourceText);
	state = node->fdw_state = palloc0(sizeof(CameraScan));
	state->memory = AllocSetContextCreate(node->ss.ps.state->es_query_cxt, "privid scan", ALLOCSET_DEFAULT_SIZES);
	state->declared = !privid_room && IsDeclared(relid);
}

/* A handle for raw rows of one table; the engine hears only of tables that CheckRawScan passed. */
static char *
RawHandle(RowStream *stream, Oid relid)
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
	return JsonFieldString(AskStream(stream, 'W', out.data, 'r'), "handle");
}

/* Ask the engine for the rows of this scan, on a connection of its own. */
static RowReader *
BeginRows(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	RowStream  *stream = OpenStream();
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	AppendJsonString(&out, "handle", privid_room ? RoomOption(relid, "handle") : RawHandle(stream, relid));
	AppendJsonInt(&out, "table", privid_room ? pg_strtoint32(RoomOption(relid, "number")) : 0);
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

	if (!privid_room)
		CheckRawFetch(RelationGetRelid(node->ss.ss_currentRelation), state->declared, node->ss.ps.state->es_sourceText);
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
