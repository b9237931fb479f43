/*
 * release.c: the custom scan that carries out a release.
 *
 * The first fetch sends the request and waits for the answer, which comes at a
 * time that depends on public facts only. The answer is kept in a tuplestore:
 * rescans and backward fetches read it again, they never release again, nor
 * does the second look at a row that another transaction changed. Each
 * execution of a prepared statement is a request of its own.
 *
 * Nothing but the request and the answer is ever in this process.
 */
#include "privid.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(privid_release);

typedef struct ReleaseState
{
	CustomScanState css;
	List	   *release;		/* as split.c made it */
	Oid			asker;			/* who began it; another may fetch from a cursor */
	Tuplestorestate *answer;	/* NULL until released */
	int			reader;			/* the place in it where this scan reads */
	struct ReleaseState *first;	/* whose answer it is, where PostgreSQL evaluates a row again (EvalPlanQual); NULL: its own */
	TupleTableSlot *stored;		/* a row of it */
	List	   *held;			/* Relation: what it reads; open, so that nobody redefines it */
} ReleaseState;

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

/* ------------------------------------------------------------------ planning */

/* Called once, when the library is preloaded. */
void
InstallReleaseScan(void)
{
	RegisterCustomScanMethods(&scan_methods);
}

/* The only path of a release. */
Path *
MakeReleasePath(PlannerInfo *root, RelOptInfo *rel, List *release)
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
	path->custom_private = release;
	path->methods = &path_methods;
	return &path->path;
}

/* The plan node: it yields the release's columns. */
static Plan *
PlanRelease(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
			List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	ListCell   *lc;

	scan->scan.scanrelid = 0;
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	foreach(lc, ReleaseQuery(best_path->custom_private)->targetList)
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

/* The answer of the engine, asked in the name and with the rights of whoever began the release. */
static text *
AskAnswer(ReleaseState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	Oid			user;
	int			context;
	text	   *reply;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(state->asker, context | SECURITY_LOCAL_USERID_CHANGE);
	reply = Ask('R', RequestOf(state->release, estate->es_param_list_info, estate->es_sourceText), 'a', estate->es_sourceText);
	SetUserIdAndSecContext(user, context);	/* after an error PostgreSQL does so */
	return reply;
}

/* Carry the release out: one request, one answer. */
static void
CarryOut(ReleaseState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "privid release", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);
	Tuplestorestate *store;
	text	   *reply;
	char	   *notice;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("a standby cannot release"),
				 errhint("Connect to the primary, where budgets are kept.")));
	if (IsPreviewing())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("a preview cannot release"),
				 errdetail("A function in the statement reads a camera while it is planned."),
				 errhint("Declare the function VOLATILE, and preview its queries by themselves.")));
	store = tuplestore_begin_heap(true, false, work_mem);
	MemoryContextSwitchTo(work);
	reply = AskAnswer(state);
	state->answer = store;
	StoreAnswer(state, reply);
	notice = JsonFieldString(reply, "notice");
	if (notice)
		ereport(NOTICE, (errmsg_internal("%s", notice)));
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(work);
}

/* ------------------------------------------------------------------ execution */

/* Called for each execution of the plan. */
static Node *
CreateReleaseState(CustomScan *scan)
{
	ReleaseState *state = (ReleaseState *) newNode(sizeof(ReleaseState), T_CustomScanState);

	state->css.methods = &exec_methods;
	state->release = scan->custom_private;
	return (Node *) state;
}

/* The error of a relation that is not what it was when the statement was read. */
void
RaiseChanged(const char *relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 relation ? errmsg("definition of \"%s\" has changed since the statement began", relation)
			 : errmsg("a relation of the statement was dropped since it began"),
			 errhint("Run the statement again.")));
}

/* Open every relation of the release, as any other scan would. Nothing is asked yet: a plan that is only explained asks nothing here. */
static void
BeginRelease(CustomScanState *node, EState *estate, int eflags)
{
	ReleaseState *state = (ReleaseState *) node;
	ListCell   *lc;

	CheckPreloaded();
	state->asker = GetUserId();
	state->stored = ExecInitExtraTupleSlot(estate, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
										   &TTSOpsMinimalTuple);
	foreach(lc, RelationsOf((Node *) ReleaseQuery(state->release)))
	{
		Relation	rel = try_relation_open(lfirst_node(RangeTblEntry, lc)->relid, AccessShareLock);

		if (rel == NULL)
			RaiseChanged(NULL);
		state->held = lappend(state->held, rel);
	}
}

/* Find the scan of the same release in a plan that is being executed. */
static bool
FirstWalker(PlanState *node, ReleaseState *state)
{
	if (node->plan != state->css.ss.ps.plan)
		return planstate_tree_walker(node, FirstWalker, state);
	state->first = (ReleaseState *) node;
	return true;
}

/*
 * An answer to read, from its beginning. A statement that meets a row which
 * another transaction has changed evaluates its condition for that row anew, in
 * a second copy of its subplans: they read the answer that it has already.
 */
static void
OpenAnswer(ReleaseState *state)
{
	EPQState   *again = state->css.ss.ps.state->es_epq_active;
	ListCell   *lc;

	if (again)
		foreach(lc, again->parentestate->es_subplanstates)
		{
			PlanState  *other = lfirst(lc);

			/* none where PostgreSQL had two ways to look for an EXISTS, and has chosen the other */
			if (other && FirstWalker(other, state))
				break;
		}
	if (state->first == NULL)
	{
		CarryOut(state);
		return;
	}
	if (state->first->answer == NULL)
		CarryOut(state->first);
	state->answer = state->first->answer;
	state->reader = tuplestore_alloc_read_pointer(state->answer, EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD);
	tuplestore_select_read_pointer(state->answer, state->reader);
	tuplestore_rescan(state->answer);
}

/* The next row of the answer, in either direction. */
static TupleTableSlot *
NextAnswer(ReleaseState *state)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	bool		forward = ScanDirectionIsForward(state->css.ss.ps.state->es_direction);

	if (state->answer == NULL)
		OpenAnswer(state);
	ExecClearTuple(slot);
	tuplestore_select_read_pointer(state->answer, state->reader);
	if (tuplestore_gettupleslot(state->answer, forward, false, state->stored))
		ExecCopySlot(slot, state->stored);
	return slot;
}

/* Earlier minor versions of PostgreSQL 15 ask for rows here, where a row is evaluated again. */
static bool
RecheckAnswer(ReleaseState *state, TupleTableSlot *slot)
{
	(void) NextAnswer(state);
	return true;
}

/* ExecCustomScan */
static TupleTableSlot *
ExecRelease(CustomScanState *node)
{
	return ExecScan(&node->ss, (ExecScanAccessMtd) NextAnswer, (ExecScanRecheckMtd) RecheckAnswer);
}

/* EndCustomScan */
static void
EndRelease(CustomScanState *node)
{
	ReleaseState *state = (ReleaseState *) node;
	ListCell   *lc;

	if (state->answer && state->first == NULL)
		tuplestore_end(state->answer);
	state->answer = NULL;
	foreach(lc, state->held)
		relation_close(lfirst(lc), NoLock);
	state->held = NIL;
}

/* ReScanCustomScan: the same answer again */
static void
ReScanRelease(CustomScanState *node)
{
	ReleaseState *state = (ReleaseState *) node;

	ExecScanReScan(&node->ss);
	if (state->answer)
	{
		tuplestore_select_read_pointer(state->answer, state->reader);
		tuplestore_rescan(state->answer);
	}
}

/* ExplainCustomScan */
static void
ExplainReleaseScan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	EState	   *estate = node->ss.ps.state;

	ExplainRelease(((ReleaseState *) node)->release, estate->es_param_list_info, estate->es_sourceText, es);
}

/* The planner hook puts this function where a release stands; it is never called. */
Datum
privid_release(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_RAW_ROWS),
			 errmsg("privid.release cannot be called directly"),
			 errhint("Write an aggregate over a foreign table of a camera.")));
	PG_RETURN_NULL();			/* not reached */
}
