/*
 * explain.c: the request to the engine, and what EXPLAIN shows of a release.
 */
#include "privid.h"

#include "commands/dbcommands.h"
#include "commands/explain.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/numeric.h"

const char *request_source = NULL;

/*
 * Constants travel as text, and bounds of noise are computed from it: print
 * them exactly, and dates as the inner query will, whatever the session says.
 */
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

/* A whole request (docs/protocol.md) for a concrete release. */
char *
RequestOf(Query *concrete, List *argmax, const char *source, List **tables)
{
	StringInfoData out;
	int			nest = NewGUCNestLevel();
	char	   *body;
	char	   *epsilon = DatumGetCString(DirectFunctionCall1(numeric_out,
															  DirectFunctionCall1(float8_numeric,
																				  Float8GetDatum(privid_epsilon))));

	request_source = source;
	PinTextForms();
	body = SerialiseRelease(concrete, argmax, source, tables);
	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	AppendJsonString(&out, "role", GetUserNameFromId(GetUserId(), false));
	AppendJsonString(&out, "database", get_database_name(MyDatabaseId));
	AppendJsonString(&out, "epsilon", epsilon);
	AppendJsonBool(&out, "reuse", privid_reuse);
	AppendJsonString(&out, "query", source ? source : "");
	AppendSettings(&out);
	appendStringInfo(&out, ",%s}", body);
	AtEOXact_GUC(false, nest);
	return out.data;
}

/* Begin a member of the JSON object that EXPLAIN is writing. */
static void
BeginJsonMember(ExplainState *es, const char *label)
{
	if (linitial_int(es->grouping_stack) != 0)
		appendStringInfoChar(es->str, ',');
	else
		linitial_int(es->grouping_stack) = 1;
	appendStringInfoChar(es->str, '\n');
	appendStringInfoSpaces(es->str, es->indent * 2);
	escape_json(es->str, label);
	appendStringInfoString(es->str, ": ");
}

/* Lines of the text form, under the node they belong to */
static void
ExplainLines(text *lines, ExplainState *es)
{
	char	   *line;

	for (int i = 0; (line = JsonElementString(lines, i)) != NULL; i++)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%s\n", line);
	}
}

/*
 * Ask the engine what the release would cost and how exact it would be. This
 * runs nothing and charges nothing.
 */
void
ExplainRelease(List *release, ParamListInfo params, const char *source, ExplainState *es)
{
	List	   *tables;
	Query	   *concrete = MakeConcrete(copyObject(linitial_node(Query, release)), params);
	text	   *reply = Ask('X', RequestOf(concrete, lsecond(release), source, &tables), 'x', 0, NULL);
	text	   *object = JsonField(reply, "Privid");
	text	   *lines = JsonField(reply, "text");

	if (object == NULL || lines == NULL)
		elog(ERROR, "engine sent no explanation");
	switch (es->format)
	{
		case EXPLAIN_FORMAT_TEXT:
			ExplainLines(lines, es);
			break;
		case EXPLAIN_FORMAT_JSON:
			BeginJsonMember(es, "Privid");
			appendStringInfoString(es->str, text_to_cstring(object));
			break;
		default:
			ExplainPropertyText("Privid", text_to_cstring(object), es);
	}
}
