/*
 * explain.c: what EXPLAIN shows of a release.
 */
#include "privid.h"

#include "commands/explain.h"
#include "utils/builtins.h"
#include "utils/json.h"

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
	text	   *reply = Ask('X', RequestOf(release, params, source), 'x', source);
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
