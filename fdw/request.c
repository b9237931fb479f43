/*
 * request.c: what the engine is asked, as one JSON object (docs/protocol.md).
 */
#include "writer.h"

#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/numeric.h"
#include "utils/fmgrprotos.h"

/* Constants are written as the room will read them, whatever the session says. */
static void
PinTextForms(void)
{
	static const char *const settings[][2] = {
		{"extra_float_digits", "1"},
		{"DateStyle", "ISO, MDY"},
		{"IntervalStyle", "postgres"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

/* {"refused": ...} in the place of a whole level */
static void
WriteRefusedLevel(Writer *w, const Refusal *refusal)
{
	appendStringInfoChar(&w->out, '{');
	AppendJsonString(&w->out, "refused", refusal->message);
	AppendJsonString(&w->out, "sqlstate", unpack_sql_state(refusal->sqlstate));
	AppendJsonString(&w->out, "detail", refusal->detail);
	AppendJsonString(&w->out, "hint", refusal->hint);
	AppendJsonInt(&w->out, "loc", refusal->location);
	appendStringInfoChar(&w->out, '}');
}

/*
 * Every release as it is in this execution, or why it is none. Constants are
 * folded under the session's own settings, as PostgreSQL would fold them.
 */
static void
MakeReleasesConcrete(Candidate *candidate, ParamListInfo params)
{
	List	   *release = candidate->release;
	ListCell   *lc;

	if (release && !candidate->refusal.message && !FindForeignCode((Node *) ReleaseQuery(release), &candidate->refusal))
		candidate->concrete = list_make2(MakeConcrete(copyObject(ReleaseQuery(release)), params), ReleaseArgmax(release));
	foreach(lc, candidate->below)
		MakeReleasesConcrete(lfirst(lc), params);
}

/* A release, or why it is none. */
static void
WriteSelect(Writer *w, Candidate *candidate)
{
	if (candidate->refusal.message)
		WriteRefusedLevel(w, &candidate->refusal);
	else if (candidate->concrete)
		WriteRelease(w, candidate->concrete);
	else
		appendStringInfoString(&w->out, "null");
}

/* {"number", "raw", "select", "below"}: a level that could be the release, and those below it */
static void
WriteCandidate(Writer *w, Candidate *candidate)
{
	ListCell   *lc;

	OpenJson(&w->out, NULL, '{');
	AppendJsonInt(&w->out, "number", candidate->number);
	AppendJsonBool(&w->out, "raw", candidate->raw);
	AppendJsonKey(&w->out, "select");
	WriteSelect(w, candidate);
	OpenJson(&w->out, "below", '[');
	foreach(lc, candidate->below)
		WriteCandidate(w, lfirst(lc));
	appendStringInfoString(&w->out, "]}");
}

/* What this session calls our range: its search_path may not see it, or see another. */
static const char *
NameOfRange(void)
{
	Oid			types[] = {FLOAT8OID, FLOAT8OID, FLOAT8OID};
	Oid			funcid = LookupFuncName(list_make1(makeString("range")), lengthof(types), types, true);

	return OidIsValid(funcid) && IsOurs(funcid) ? "range" : "privid.range";
}

/* Who asks, with what, for what; the last member and its value are given. Reading public rows for it took its time. */
static char *
Envelope(Writer *w, const char *member)
{
	StringInfoData out;
	Cameras		said = {0};
	ListCell   *lc;
	char	   *epsilon = DatumGetCString(DirectFunctionCall1(numeric_out,
															  DirectFunctionCall1(float8_numeric,
																				  Float8GetDatum(privid_epsilon))));

	AcceptInvalidationMessages();
	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	AppendJsonString(&out, "role", GetUserNameFromId(GetUserId(), false));
	AppendJsonInt(&out, "role_oid", GetUserId());
	AppendJsonString(&out, "login", GetUserNameFromId(GetSessionUserId(), false));
	AppendJsonString(&out, "database", get_database_name(MyDatabaseId));
	AppendJsonString(&out, "epsilon", epsilon);
	AppendJsonBool(&out, "reuse", privid_reuse);
	AppendJsonInt(&out, "allowance", privid_allowance);
	AppendJsonString(&out, "query", w->source ? w->source : "");
	AppendJsonString(&out, "range", NameOfRange());
	AppendSettings(&out);
	OpenJson(&out, "tables", '[');
	foreach(lc, w->tables)
	{
		AppendJsonKey(&out, NULL);
		AppendTable(&out, lfirst_oid(lc), &said);
	}
	appendStringInfoChar(&out, ']');
	OpenJson(&out, "readers", '[');
	foreach(lc, w->readers)
		AppendReader(&out, linitial_oid(lfirst(lc)), lsecond_oid(lfirst(lc)));
	appendStringInfo(&out, "],\"%s\":%s}", member, w->out.data);
	return out.data;
}

/* A whole request: for a release, or the question which of several levels are the releases. */
static char *
MakeRequest(Candidate *top, bool choice, ParamListInfo params, const char *source)
{
	Writer		w = {.source = source};
	char	   *request;
	int			nest;

	AcceptInvalidationMessages();
	MakeReleasesConcrete(top, params);
	nest = NewGUCNestLevel();
	PinTextForms();
	initStringInfo(&w.out);
	if (choice)
		WriteCandidate(&w, top);
	else
		WriteSelect(&w, top);
	request = Envelope(&w, choice ? "candidate" : "select");
	AtEOXact_GUC(false, nest);
	return request;
}

/* What is asked for a release. */
char *
RequestOf(List *release, ParamListInfo params, const char *source)
{
	Candidate	only = {.release = release};

	return MakeRequest(&only, false, params, source);
}

/* What is asked where several levels could be it. */
char *
RequestForChoice(Candidate *top, ParamListInfo params, const char *source)
{
	return MakeRequest(top, true, params, source);
}
