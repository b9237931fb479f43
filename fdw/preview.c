/*
 * preview.c: what EXPLAIN says of a text from outside, of which nothing runs.
 *
 * No text is pasted into a statement. PostgreSQL's own parser takes it apart,
 * and what is explained is the tree of one query. Planning evaluates what is
 * constant in it, as every EXPLAIN does, with the rights of whoever asks; here
 * that is done in a subtransaction that is read-only and is always rolled back,
 * and a release that it comes upon is refused, because nothing takes a charge back.
 */
#include "privid.h"

#include "access/xact.h"
#include "commands/explain.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/queryjumble.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(privid_split_statements);
PG_FUNCTION_INFO_V1(privid_explain);

/* How many previews are under way, one inside the other */
static int	previews = 0;

/* Where EXPLAIN leaves its one row */
typedef struct PlanReceiver
{
	DestReceiver receiver;
	MemoryContext context;		/* outlives the subtransaction */
	text	   *plan;
} PlanReceiver;

/* Positions in errors are those of the text, not of the statement in which it is an argument. */
static void
PlaceError(void *source)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(source);
	}
	errcontext("preview of a statement");
}

/* As PlaceError, while the text is parsed: a text is parsed as a whole. */
static void
PlaceSyntaxError(void *source)
{
	PlaceError(source);
	if (geterrcode() == ERRCODE_SYNTAX_ERROR)
		errhint("Nothing is previewed of a text that PostgreSQL cannot parse as a whole.");
}

/* The statements of a text. */
static List *
Parse(char *source)
{
	ErrorContextCallback place = {error_context_stack, PlaceSyntaxError, source};
	List	   *statements;

	error_context_stack = &place;
	statements = raw_parser(source, RAW_PARSE_DEFAULT);
	error_context_stack = place.previous;
	return statements;
}

/* SQL: privid.split_statements(text): the text of each statement, apart where PostgreSQL takes them apart. */
Datum
privid_split_statements(PG_FUNCTION_ARGS)
{
	char	   *source = text_to_cstring(PG_GETARG_TEXT_PP(0));
	ArrayBuildState *pieces = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	ListCell   *lc;

	foreach(lc, Parse(source))
	{
		RawStmt    *statement = lfirst_node(RawStmt, lc);
		const char *piece = CleanQuerytext(source, &statement->stmt_location, &statement->stmt_len);

		accumArrayResult(pieces, PointerGetDatum(cstring_to_text_with_len(piece, statement->stmt_len)), false, TEXTOID,
						 CurrentMemoryContext);
	}
	PG_RETURN_DATUM(makeArrayResult(pieces, CurrentMemoryContext));
}

/*
 * Is it a query, of which EXPLAIN evaluates nothing but what the planner does?
 * It would evaluate arguments of a prepared statement, so those are constants.
 */
static bool
IsQuery(Node *statement)
{
	ListCell   *lc;

	if (IsA(statement, ExecuteStmt))
	{
		foreach(lc, ((ExecuteStmt *) statement)->params)
			if (!IsA(lfirst(lc), A_Const))
				return false;
		return true;
	}
	return IsA(statement, SelectStmt);
}

/* Keeps the row, which is one value. */
static bool
ReceivePlan(TupleTableSlot *slot, DestReceiver *self)
{
	PlanReceiver *to = (PlanReceiver *) self;
	MemoryContext before;
	bool		isnull;
	Datum		value = slot_getattr(slot, 1, &isnull);

	before = MemoryContextSwitchTo(to->context);
	to->plan = DatumGetTextPCopy(value);
	MemoryContextSwitchTo(before);
	return true;
}

/* Nothing is to be done before the first row. */
static void
BeginReceiving(DestReceiver *self, int operation, TupleDesc type)
{
}

/* Nor after the last. */
static void
EndReceiving(DestReceiver *self)
{
}

/* EXPLAIN (FORMAT JSON) of a parsed query, and no other option. */
static void
Explain(RawStmt *statement, char *source, DestReceiver *to)
{
	ErrorContextCallback place = {error_context_stack, PlaceError, source};
	ExplainStmt *explain = makeNode(ExplainStmt);
	ParseState *pstate = make_parsestate(NULL);
	Query	   *query;

	error_context_stack = &place;
	explain->query = statement->stmt;
	explain->options = list_make1(makeDefElem("format", (Node *) makeString("json"), -1));
	statement->stmt = (Node *) explain;
	query = parse_analyze_fixedparams(statement, source, NULL, 0, NULL);
	pstate->p_sourcetext = source;
	ExplainQuery(pstate, castNode(ExplainStmt, query->utilityStmt), NULL, to);
	error_context_stack = place.previous;
}

/* Is what runs now evaluated for a preview? */
bool
IsPreviewing(void)
{
	return previews > 0;
}

/* End a preview: leave its subtransaction, and nothing that was done in it. */
static void
Undo(MemoryContext context, ResourceOwner owner)
{
	previews--;
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

/* SQL: privid.explain(text, path): one query under that search_path; NULL for any other statement. */
Datum
privid_explain(PG_FUNCTION_ARGS)
{
	char	   *source = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *path = text_to_cstring(PG_GETARG_TEXT_PP(1));
	List	   *statements = Parse(source);
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	PlanReceiver to = {{ReceivePlan, BeginReceiving, EndReceiving, EndReceiving, DestNone}, context, NULL};

	CheckPreloaded();
	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("cannot explain %d statements at once", list_length(statements)),
				 errhint("privid.afford takes any number of them.")));
	if (!IsQuery(linitial_node(RawStmt, statements)->stmt))
		PG_RETURN_NULL();

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	previews++;
	PG_TRY();
	{
		XactReadOnly = true;	/* its end restores this and the path */
		(void) set_config_option("search_path", path, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
		Explain(linitial_node(RawStmt, statements), source, &to.receiver);
		Undo(context, owner);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		Undo(context, owner);
		ReThrowError(error);
	}
	PG_END_TRY();
	PG_RETURN_TEXT_P(to.plan);
}
