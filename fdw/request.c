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

/* A release as it is in this execution, or why it is none. */
static void
WriteSelect(Writer *w, List *release, ParamListInfo params)
{
	Refusal		refusal = {0};

	if (FindForeignCode((Node *) ReleaseQuery(release), &refusal))
		WriteRefusedLevel(w, &refusal);
	else
		WriteRelease(w, list_make2(MakeConcrete(copyObject(ReleaseQuery(release)), params), ReleaseArgmax(release)));
}

/* {"number", "raw", "select", "below"}: a level that could be the release, and those below it */
static void
WriteCandidate(Writer *w, Candidate *candidate, ParamListInfo params)
{
	ListCell   *lc;

	AppendJsonKey(&w->out, NULL);
	appendStringInfoChar(&w->out, '{');
	AppendJsonInt(&w->out, "number", candidate->number);
	AppendJsonBool(&w->out, "raw", candidate->raw);
	AppendJsonKey(&w->out, "select");
	if (candidate->refusal.message)
		WriteRefusedLevel(w, &candidate->refusal);
	else if (candidate->release)
		WriteSelect(w, candidate->release, params);
	else
		appendStringInfoString(&w->out, "null");
	AppendJsonKey(&w->out, "below");
	appendStringInfoChar(&w->out, '[');
	foreach(lc, candidate->below)
		WriteCandidate(w, lfirst(lc), params);
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
	AppendJsonString(&out, "database", get_database_name(MyDatabaseId));
	AppendJsonString(&out, "epsilon", epsilon);
	AppendJsonBool(&out, "reuse", privid_reuse);
	AppendJsonInt(&out, "allowance", privid_allowance);
	AppendJsonString(&out, "query", w->source ? w->source : "");
	AppendJsonString(&out, "range", NameOfRange());
	AppendSettings(&out);
	AppendJsonKey(&out, "tables");
	appendStringInfoChar(&out, '[');
	foreach(lc, w->tables)
	{
		AppendJsonKey(&out, NULL);
		AppendTable(&out, lfirst_oid(lc), &said);
	}
	appendStringInfoChar(&out, ']');
	AppendJsonKey(&out, "readers");
	appendStringInfoChar(&out, '[');
	foreach(lc, w->readers)
		AppendReader(&out, linitial_oid(lfirst(lc)), lsecond_oid(lfirst(lc)));
	appendStringInfo(&out, "],\"%s\":%s}", member, w->out.data);
	return out.data;
}

/* A whole request for a release. */
char *
RequestOf(List *release, ParamListInfo params, const char *source)
{
	Writer		w = {.source = source};
	int			nest = NewGUCNestLevel();
	char	   *request;

	AcceptInvalidationMessages();
	PinTextForms();
	initStringInfo(&w.out);
	WriteSelect(&w, release, params);
	request = Envelope(&w, "select");
	AtEOXact_GUC(false, nest);
	return request;
}

/* The question which of several levels are the releases. */
char *
RequestForChoice(Candidate *top, ParamListInfo params, const char *source)
{
	Writer		w = {.source = source};
	int			nest = NewGUCNestLevel();
	char	   *request;

	AcceptInvalidationMessages();
	PinTextForms();
	initStringInfo(&w.out);
	WriteCandidate(&w, top, params);
	request = Envelope(&w, "candidate");
	AtEOXact_GUC(false, nest);
	return request;
}
