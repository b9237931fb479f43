/*
 * release.c: the custom scan that carries out a release.
 *
 * Theory of operation. The first fetch asks the engine for the release (which
 * charges the budget, durably, before anything is computed), runs the inner
 * query in this backend's executor with foreign scans that fetch rows under
 * the release's handle, hands the raw result to the engine, and gets back the
 * answer at a time that depends on public facts only. The answer is kept in a
 * tuplestore: rescans and backward fetches read it again, they never release
 * again.
 *
 * While raw values are in this process nothing of them may show: messages to
 * the client are off, errors are replaced by one that says nothing, buffer
 * counters are put back, and other sessions see one unchanging wait event.
 */
#include "privid.h"

#include "access/xlog.h"
#include "funcapi.h"
#include "optimizer/optimizer.h"
#include "access/xact.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

Release    *current_release = NULL;
uint64		planning_nonce = 0;

typedef struct ReleaseState
{
	CustomScanState css;
	List	   *release;		/* as rewrite.c made it: query, argmax */
	Tuplestorestate *answer;	/* NULL until released */
	TupleTableSlot *stored;		/* a row of it */
} ReleaseState;

/* ------------------------------------------------------------------ planning */

static Plan *PlanRelease(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
						 List *tlist, List *clauses, List *custom_plans);
static Node *CreateReleaseState(CustomScan *scan);
static void BeginRelease(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *ExecRelease(CustomScanState *node);
static void EndRelease(CustomScanState *node);
static void ReScanRelease(CustomScanState *node);
static void ExplainReleaseScan(CustomScanState *node, List *ancestors, ExplainState *es);

static const CustomPathMethods path_methods = {
	.CustomName = "Privid Release",
	.PlanCustomPath = PlanRelease,
};

static const CustomScanMethods scan_methods = {
	.CustomName = "Privid Release",
	.CreateCustomScanState = CreateReleaseState,
};

static const CustomExecMethods exec_methods = {
	.CustomName = "Privid Release",
	.BeginCustomScan = BeginRelease,
	.ExecCustomScan = ExecRelease,
	.EndCustomScan = EndRelease,
	.ReScanCustomScan = ReScanRelease,
	.ExplainCustomScan = ExplainReleaseScan,
};

void
InstallReleaseScan(void)
{
	RegisterCustomScanMethods(&scan_methods);
}

Path *
MakeReleasePath(PlannerInfo *root, RelOptInfo *rel, Index rti, int number)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = false;
	path->path.rows = rel->rows;
	path->path.startup_cost = 1000;
	path->path.total_cost = 1000 + cpu_tuple_cost * rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_BACKWARD_SCAN | CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_nth_node(List, planning->releases, number);
	path->methods = &path_methods;
	return &path->path;
}

static Plan *
PlanRelease(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
			List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	Query	   *query = linitial_node(Query, best_path->custom_private);
	ListCell   *lc;

	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;
		Var		   *var = makeVar(rel->relid, tle->resno, exprType(expr), exprTypmod(expr), exprCollation(expr), 0);

		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist,
										  makeTargetEntry((Expr *) var, tle->resno, tle->resname, false));
	}
	scan->custom_private = best_path->custom_private;
	scan->custom_relids = bms_make_singleton(rel->relid);
	scan->flags = best_path->flags;
	scan->methods = &scan_methods;
	return (Plan *) scan;
}

/* ------------------------------------------------------------------ the inner query */

/*
 * Settings under which the inner query runs: nothing goes to the client nor
 * into statistics, one process, no compiler, no files, and values in a form
 * that does not depend on the session. The time zone stays, since it has a meaning in the query.
 */
static void
SetInnerSettings(void)
{
	static const char *const settings[][2] = {
		{"client_min_messages", "error"},
		{"work_mem", "2000000kB"},
		{"hash_mem_multiplier", "1"},
		{"track_counts", "off"},
		{"jit", "off"},
		{"max_parallel_workers_per_gather", "0"},
		{"DateStyle", "ISO, MDY"},
		{"IntervalStyle", "postgres"},
		{"extra_float_digits", "1"},
		{"bytea_output", "hex"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

typedef struct RowsReceiver
{
	DestReceiver pub;
	StringInfo	out;			/* JSON rows */
	FmgrInfo   *output;
	int64		rows;
} RowsReceiver;

static void
RowsStartup(DestReceiver *self, int operation, TupleDesc desc)
{
	RowsReceiver *receiver = (RowsReceiver *) self;

	receiver->output = palloc(sizeof(FmgrInfo) * desc->natts);
	for (int i = 0; i < desc->natts; i++)
	{
		Oid			function;
		bool		varlena;

		getTypeOutputInfo(TupleDescAttr(desc, i)->atttypid, &function, &varlena);
		fmgr_info(function, &receiver->output[i]);
	}
}

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
	receiver->rows++;
	return true;
}

static void
RowsShutdown(DestReceiver *self)
{
}

/* Plan and run the inner query; the rows it yields are appended to out as JSON. */
static void
RunInner(Query *concrete, Release *release, StringInfo out)
{
	Release    *outer = current_release;
	uint64		outer_nonce = planning_nonce;
	RowsReceiver receiver = {.out = out};
	Query	   *inner = MakeTotal(concrete);
	QueryEnvironment *env = CopyPublicTables(inner);
	PlannedStmt *plan;
	QueryDesc  *desc;

	receiver.pub.receiveSlot = RowsReceive;
	receiver.pub.rStartup = RowsStartup;
	receiver.pub.rShutdown = RowsShutdown;
	receiver.pub.rDestroy = RowsShutdown;
	receiver.pub.mydest = DestNone;

	PG_TRY();
	{
		current_release = release;
		planning_nonce = release->nonce;
		plan = PlanInner(inner);
		planning_nonce = outer_nonce;
		desc = CreateQueryDesc(plan, "", GetActiveSnapshot(), InvalidSnapshot, &receiver.pub, NULL, env, 0);
		ExecutorStart(desc, 0);
		ExecutorRun(desc, ForwardScanDirection, 0, true);
		ExecutorFinish(desc);
		ExecutorEnd(desc);
		FreeQueryDesc(desc);
	}
	PG_FINALLY();
	{
		current_release = outer;
		planning_nonce = outer_nonce;
	}
	PG_END_TRY();
}

/*
 * Is this error of a kind whose appearance says nothing about the video? Those
 * of the engine are made of public facts; a cancel is the client's own doing.
 */
static bool
IsPublicError(int code)
{
	return ERRCODE_TO_CATEGORY(code) == ERRCODE_TO_CATEGORY(MAKE_SQLSTATE('P', 'V', '0', '0', '0')) ||
		code == ERRCODE_QUERY_CANCELED || code == ERRCODE_ADMIN_SHUTDOWN || code == ERRCODE_CRASH_SHUTDOWN;
}

/* Run the inner query unseen, and exchange its rows for the answer. */
static text *
ComputeAnswer(Query *concrete, Release *release)
{
	MemoryContext caller = CurrentMemoryContext;
	BufferUsage buffers = pgBufferUsage;
	WalUsage	wal = pgWalUsage;
	uint32		hidden = 0;
	int			nest = NewGUCNestLevel();
	StringInfoData rows;
	text	   *answer = NULL;

	initStringInfo(&rows);
	appendStringInfoChar(&rows, '{');
	AppendJsonString(&rows, "handle", release->handle);
	AppendJsonKey(&rows, "rows");
	appendStringInfoChar(&rows, '[');

	MyProc->wait_event_info = PG_WAIT_EXTENSION;
	pgstat_set_wait_event_storage(&hidden);
	PG_TRY();
	{
		SetInnerSettings();
		RunInner(concrete, release, &rows);
		appendStringInfoString(&rows, "]}");
		answer = Ask('D', rows.data, 'a', 0, NULL);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		DropConnection();
		pgstat_set_wait_event_storage(&MyProc->wait_event_info);
		MyProc->wait_event_info = 0;
		pgBufferUsage = buffers;
		pgWalUsage = wal;
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		if (IsPublicError(error->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
		ereport(LOG_SERVER_ONLY,
				(errcode(error->sqlerrcode), errmsg("the inner query of a release failed"), errhidestmt(true)));
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_FAILED),
				 errmsg("could not compute the release"),
				 errdetail("The budget stays charged. The reason is withheld, since it could depend on the video.")));
	}
	PG_END_TRY();
	pgstat_set_wait_event_storage(&MyProc->wait_event_info);
	MyProc->wait_event_info = 0;
	pgBufferUsage = buffers;
	pgWalUsage = wal;
	AtEOXact_GUC(true, nest);
	pfree(rows.data);
	return answer;
}

/* ------------------------------------------------------------------ the answer */

/* Read the answer's rows into the tuplestore, each value by its type's input function. */
static void
StoreAnswer(ReleaseState *state, text *answer)
{
	TupleDesc	desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	text	   *rows = JsonField(answer, "rows");
	Jsonb	   *parsed;
	JsonbIterator *it;
	JsonbValue	value;
	JsonbIteratorToken token;
	AttInMetadata *input = TupleDescGetAttInMetadata(desc);
	Datum	   *values = palloc0(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc0(sizeof(bool) * desc->natts);
	int			column = -1;

	if (rows == NULL)
		elog(ERROR, "engine sent no rows");
	parsed = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text_to_cstring(rows))));
	it = JsonbIteratorInit(&parsed->root);
	while ((token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		if (token == WJB_BEGIN_ARRAY)
			column = 0;
		else if (token == WJB_ELEM)
		{
			char	   *text = NULL;

			if (column < 0 || column >= desc->natts || (value.type != jbvString && value.type != jbvNull))
				elog(ERROR, "engine sent a row of another shape");
			if (value.type == jbvString)
				text = pnstrdup(value.val.string.val, value.val.string.len);
			nulls[column] = text == NULL;
			values[column] = InputFunctionCall(&input->attinfuncs[column], text,
											   input->attioparams[column], input->atttypmods[column]);
			column++;
		}
		else if (token == WJB_END_ARRAY && column >= 0)
		{
			if (column != desc->natts)
			{
				if (column == 0)
					break;		/* the end of an empty list of rows */
				elog(ERROR, "engine sent a row of another shape");
			}
			tuplestore_putvalues(state->answer, desc, values, nulls);
			column = -1;
		}
	}
}

/* Carry the release out: authorise and charge, compute, answer. */
static void
CarryOut(ReleaseState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "privid release", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	static uint64 nonces = 0;
	Release		release = {.nonce = ++nonces};
	Query	   *concrete;
	char	   *request;
	char		got;
	text	   *reply;
	char	   *notice;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("a standby cannot release"),
				 errhint("Connect to the primary, where budgets are kept.")));
	state->answer = tuplestore_begin_heap(true, false, work_mem);
	MemoryContextSwitchTo(work);
	concrete = MakeConcrete(copyObject(linitial_node(Query, state->release)), estate->es_param_list_info);
	request = RequestOf(concrete, lsecond(state->release), estate->es_sourceText, &release.tables);
	reply = Ask('R', request, 'r', 'a', &got);
	if (got == 'r')
	{
		release.handle = JsonFieldString(reply, "handle");
		reply = ComputeAnswer(MakeCollecting(concrete, JsonField(reply, "columns")), &release);
	}
	StoreAnswer(state, reply);
	notice = JsonFieldString(reply, "notice");
	if (notice)
		ereport(NOTICE, (errmsg_internal("%s", notice)));
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(work);
}

/* ------------------------------------------------------------------ execution */

static Node *
CreateReleaseState(CustomScan *scan)
{
	ReleaseState *state = (ReleaseState *) newNode(sizeof(ReleaseState), T_CustomScanState);

	state->css.methods = &exec_methods;
	state->release = scan->custom_private;
	return (Node *) state;
}

static void
BeginRelease(CustomScanState *node, EState *estate, int eflags)
{
	ReleaseState *state = (ReleaseState *) node;

	CheckPreloaded();
	state->stored = ExecInitExtraTupleSlot(estate, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
										   &TTSOpsMinimalTuple);
}

static TupleTableSlot *
NextAnswer(ReleaseState *state)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	bool		forward = ScanDirectionIsForward(state->css.ss.ps.state->es_direction);

	if (state->answer == NULL)
		CarryOut(state);
	ExecClearTuple(slot);
	if (tuplestore_gettupleslot(state->answer, forward, false, state->stored))
		ExecCopySlot(slot, state->stored);
	return slot;
}

static bool
RecheckAnswer(ReleaseState *state, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
ExecRelease(CustomScanState *node)
{
	return ExecScan(&node->ss, (ExecScanAccessMtd) NextAnswer, (ExecScanRecheckMtd) RecheckAnswer);
}

static void
EndRelease(CustomScanState *node)
{
	ReleaseState *state = (ReleaseState *) node;

	if (state->answer)
		tuplestore_end(state->answer);
	state->answer = NULL;
}

static void
ReScanRelease(CustomScanState *node)
{
	ReleaseState *state = (ReleaseState *) node;

	ExecScanReScan(&node->ss);
	if (state->answer)
		tuplestore_rescan(state->answer);
}

static void
ExplainReleaseScan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	EState	   *estate = node->ss.ps.state;

	ExplainRelease(((ReleaseState *) node)->release, estate->es_param_list_info, estate->es_sourceText, es);
}
