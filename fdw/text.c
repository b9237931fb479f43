/*
 * text.c: writing JSON for the engine and reading its answers.
 */
#include "privid.h"

#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

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

/* The catalog's short name of a built-in type, schema.name of any other. */
const char *
ShortTypeName(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Form_pg_type form;
	const char *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	form = (Form_pg_type) GETSTRUCT(tuple);
	if (type == BOOLOID)
		name = "boolean";
	else if (form->typnamespace == PG_CATALOG_NAMESPACE)
		name = pstrdup(NameStr(form->typname));
	else
		name = quote_qualified_identifier(get_namespace_name(form->typnamespace), NameStr(form->typname));
	ReleaseSysCache(tuple);
	return name;
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

/* The member of an object as a number. */
int
JsonFieldInt(text *object, const char *key, int otherwise)
{
	char	   *value = JsonFieldString(object, key);

	return value ? pg_strtoint32(value) : otherwise;
}
