/*
 * text.c: writing JSON for the engine and reading its answers. Both libraries have it.
 */
#include "shared.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/json.h"

/* Append "key": with a comma before it unless it opens its object. */
void
AppendJsonKey(StringInfo out, const char *key)
{
	if (out->len > 0 && out->data[out->len - 1] != '{' && out->data[out->len - 1] != '[')
		appendStringInfoChar(out, ',');
	if (key)
	{
		escape_json(out, key);
		appendStringInfoChar(out, ':');
	}
}

/* Begin an object or a list, by its first character. */
void
OpenJson(StringInfo out, const char *key, char first)
{
	AppendJsonKey(out, key);
	appendStringInfoChar(out, first);
}

/* A NULL value is written as null. */
void
AppendJsonString(StringInfo out, const char *key, const char *value)
{
	AppendJsonKey(out, key);
	if (value)
		escape_json(out, value);
	else
		appendStringInfoString(out, "null");
}

/* A whole number. */
void
AppendJsonInt(StringInfo out, const char *key, int64 value)
{
	AppendJsonKey(out, key);
	appendStringInfo(out, INT64_FORMAT, value);
}

/* true or false */
void
AppendJsonBool(StringInfo out, const char *key, bool value)
{
	AppendJsonKey(out, key);
	appendStringInfoString(out, value ? "true" : "false");
}

/* Call one of PostgreSQL's json functions; NULL when it answers NULL. */
static Datum
CallJson(PGFunction function, text *object, Datum key, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 2);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = PointerGetDatum(object);
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = key;
	fcinfo->args[1].isnull = false;
	result = function(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

/* The member of an object as JSON text, in its own spelling; NULL if missing. */
text *
JsonField(text *object, const char *key)
{
	bool		isnull;
	Datum		value = CallJson(json_object_field, object, CStringGetTextDatum(key), &isnull);

	return isnull ? NULL : DatumGetTextPP(value);
}

/* The member of an object as a string; NULL if missing or null. */
char *
JsonFieldString(text *object, const char *key)
{
	bool		isnull;
	Datum		value = CallJson(json_object_field_text, object, CStringGetTextDatum(key), &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* The element of an array as a string; NULL beyond its end. */
char *
JsonElementString(text *array, int index)
{
	bool		isnull;
	Datum		value = CallJson(json_array_element_text, array, Int32GetDatum(index), &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* Cursor position for errposition(), from a byte offset. */
int
CharacterPosition(const char *source, int location)
{
	if (location < 0 || source == NULL || location > strlen(source))
		return 0;
	return pg_mbstrlen_with_len(source, location) + 1;
}
