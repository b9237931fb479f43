/*
 * allowed.c: the functions, operators and aggregates that may stand in a release.
 *
 * Default deny. An entry is an identity: schema, name and declared argument
 * types. Which of these may touch untrusted values at all, and what is evaluated
 * where one could raise, is the engine's business (calculus/functions.py,
 * calculus/twins.py); a test holds the lists together.
 */
#include "privid.h"

#include "catalog/pg_namespace.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(privid_allowed_calls);

#define COMPARE(type) \
	"pg_catalog.=(" type "," type ")", "pg_catalog.<>(" type "," type ")", \
	"pg_catalog.<(" type "," type ")", "pg_catalog.<=(" type "," type ")", \
	"pg_catalog.>(" type "," type ")", "pg_catalog.>=(" type "," type ")"
#define COMPARE2(a, b) \
	"pg_catalog.=(" a "," b ")", "pg_catalog.<>(" a "," b ")", \
	"pg_catalog.<(" a "," b ")", "pg_catalog.<=(" a "," b ")", \
	"pg_catalog.>(" a "," b ")", "pg_catalog.>=(" a "," b ")"
#define ARITHMETIC(type) \
	"pg_catalog.+(" type ")", "pg_catalog.-(" type ")", \
	"pg_catalog.*(" type ")", "pg_catalog./(" type ")"
#define TWINS(signature) "privid." signature, "public." signature

static const char *const operators[] = {
	COMPARE("float8"), COMPARE("text"), COMPARE("boolean"), COMPARE("numeric"), COMPARE("anyenum"),
	COMPARE("timestamptz"), COMPARE("timestamp"), COMPARE("date"), COMPARE("time"), COMPARE("interval"),
	COMPARE("int4"), COMPARE("int8"), COMPARE2("int4", "int8"), COMPARE2("int8", "int4"),
	COMPARE2("date", "timestamptz"), COMPARE2("timestamptz", "date"), COMPARE2("date", "timestamp"),
	COMPARE2("timestamp", "date"), COMPARE2("timestamp", "timestamptz"), COMPARE2("timestamptz", "timestamp"),
	ARITHMETIC("float8,float8"), ARITHMETIC("numeric,numeric"), ARITHMETIC("int4,int4"), ARITHMETIC("int8,int8"),
	ARITHMETIC("int4,int8"), ARITHMETIC("int8,int4"),
	"pg_catalog.-(float8)", "pg_catalog.@(float8)",
	"pg_catalog.~~(text,text)", "pg_catalog.!~~(text,text)",
	"pg_catalog.~~*(text,text)", "pg_catalog.!~~*(text,text)",
	"pg_catalog.%(int4,int4)", "pg_catalog.%(int8,int8)",
	"pg_catalog.%(numeric,numeric)",
	"pg_catalog.-(numeric)", "pg_catalog.-(int4)", "pg_catalog.-(int8)",
	"pg_catalog.||(text,text)",
	"pg_catalog.+(timestamptz,interval)", "pg_catalog.-(timestamptz,interval)",
	"pg_catalog.-(timestamptz,timestamptz)", "pg_catalog.+(timestamp,interval)",
	"pg_catalog.-(timestamp,interval)", "pg_catalog.-(timestamp,timestamp)",
	"pg_catalog.+(date,int4)", "pg_catalog.-(date,int4)", "pg_catalog.-(date,date)",
	"pg_catalog.+(interval,interval)", "pg_catalog.-(interval,interval)",
	"pg_catalog.*(interval,float8)", "pg_catalog.*(float8,interval)",
};

static const char *const functions[] = {
	TWINS("range(float8,float8,float8)"),
	TWINS("minute(timestamptz)"), TWINS("hour(timestamptz)"), TWINS("day(timestamptz)"), TWINS("week(timestamptz)"),
	TWINS("month(timestamptz)"), TWINS("year(timestamptz)"), TWINS("bin(timestamptz,interval)"),
	"pg_catalog.date_trunc(text,timestamptz)", "pg_catalog.date_trunc(text,timestamptz,text)",
	"pg_catalog.date_trunc(text,timestamp)",
	"pg_catalog.date_bin(interval,timestamptz,timestamptz)",
	"pg_catalog.extract(text,timestamptz)", "pg_catalog.extract(text,timestamp)",
	"pg_catalog.extract(text,date)", "pg_catalog.extract(text,interval)",
	"pg_catalog.date_part(text,timestamptz)", "pg_catalog.date_part(text,timestamp)",
	"pg_catalog.timezone(text,timestamptz)", "pg_catalog.timezone(text,timestamp)",
	"pg_catalog.to_timestamp(float8)",
	"pg_catalog.date(timestamptz)", "pg_catalog.date(timestamp)",
	"pg_catalog.timestamp(timestamptz)", "pg_catalog.timestamp(date)",
	"pg_catalog.timestamptz(timestamp)", "pg_catalog.timestamptz(date)",
	"pg_catalog.time(timestamptz)", "pg_catalog.time(timestamp)",
	"pg_catalog.to_char(timestamptz,text)", "pg_catalog.to_char(timestamp,text)",
	"pg_catalog.abs(float8)", "pg_catalog.floor(float8)", "pg_catalog.ceil(float8)",
	"pg_catalog.ceiling(float8)", "pg_catalog.round(float8)", "pg_catalog.sign(float8)",
	"pg_catalog.trunc(float8)",
	"pg_catalog.lower(text)", "pg_catalog.upper(text)", "pg_catalog.length(text)",
	"pg_catalog.like(text,text)", "pg_catalog.notlike(text,text)",
	"pg_catalog.width_bucket(float8,float8,float8,int4)",
	"pg_catalog.mod(int4,int4)", "pg_catalog.mod(int8,int8)", "pg_catalog.mod(numeric,numeric)",
	"pg_catalog.sqrt(float8)", "pg_catalog.ln(float8)", "pg_catalog.log(float8)",
	"pg_catalog.exp(float8)", "pg_catalog.power(float8,float8)", "pg_catalog.pow(float8,float8)",
	"pg_catalog.abs(numeric)", "pg_catalog.floor(numeric)", "pg_catalog.ceil(numeric)",
	"pg_catalog.ceiling(numeric)", "pg_catalog.round(numeric)", "pg_catalog.round(numeric,int4)",
	"pg_catalog.trunc(numeric)", "pg_catalog.trunc(numeric,int4)", "pg_catalog.sign(numeric)", "pg_catalog.trim_scale(numeric)",
	"pg_catalog.char_length(text)", "pg_catalog.octet_length(text)", "pg_catalog.strpos(text,text)",
	"pg_catalog.position(text,text)", "pg_catalog.left(text,int4)", "pg_catalog.right(text,int4)",
	"pg_catalog.btrim(text)", "pg_catalog.ltrim(text)", "pg_catalog.rtrim(text)",
	"pg_catalog.substring(text,int4)", "pg_catalog.substring(text,int4,int4)",
	"pg_catalog.substr(text,int4)", "pg_catalog.substr(text,int4,int4)",
	"pg_catalog.split_part(text,text,int4)", "pg_catalog.starts_with(text,text)",
	"pg_catalog.text(boolean)", "pg_catalog.int4(boolean)",
	"pg_catalog.int4(numeric)", "pg_catalog.int8(numeric)",
	"pg_catalog.float8(numeric)", "pg_catalog.int4(float8)",
	"pg_catalog.int8(float8)", "pg_catalog.int4(int8)",
	"pg_catalog.int8(int4)", "pg_catalog.float8(int4)", "pg_catalog.float8(int8)",
	"pg_catalog.numeric(int4)", "pg_catalog.numeric(int8)", "pg_catalog.numeric(float8)",
};

/* Casts that PostgreSQL makes by printing one type and reading the other */
static const char *const casts[] = {
	"cast(text,float8)", "cast(text,int4)", "cast(text,int8)",
	"cast(text,boolean)",
	"cast(float8,text)", "cast(numeric,text)", "cast(int4,text)", "cast(int8,text)",
	"cast(anyenum,text)", "cast(timestamptz,text)", "cast(date,text)",
};

static const char *const aggregates[] = {
	"pg_catalog.count()", "pg_catalog.count(any)", "pg_catalog.sum(numeric)",
	"pg_catalog.sum(float8)", "pg_catalog.sum(int4)", "pg_catalog.sum(int8)",
	"pg_catalog.avg(numeric)", "pg_catalog.avg(float8)", "pg_catalog.avg(int4)", "pg_catalog.avg(int8)",
	"pg_catalog.min(int4)", "pg_catalog.min(int8)", "pg_catalog.max(int4)", "pg_catalog.max(int8)",
	"pg_catalog.min(interval)", "pg_catalog.max(interval)", "pg_catalog.min(date)", "pg_catalog.max(date)",
	"pg_catalog.variance(float8)", "pg_catalog.var_pop(float8)", "pg_catalog.var_samp(float8)",
	"pg_catalog.stddev(float8)", "pg_catalog.stddev_pop(float8)", "pg_catalog.stddev_samp(float8)",
	"pg_catalog.min(numeric)", "pg_catalog.min(float8)", "pg_catalog.min(timestamptz)", "pg_catalog.min(text)",
	"pg_catalog.max(numeric)", "pg_catalog.max(float8)", "pg_catalog.max(timestamptz)", "pg_catalog.max(text)",
	"pg_catalog.variance(numeric)", "pg_catalog.var_pop(numeric)", "pg_catalog.var_samp(numeric)",
	"pg_catalog.stddev(numeric)", "pg_catalog.stddev_pop(numeric)", "pg_catalog.stddev_samp(numeric)",
	"pg_catalog.percentile_cont(float8,float8)", "pg_catalog.percentile_disc(float8,anyelement)",
};

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

/* Is the identity in the list? */
static bool
IsListed(const char *const *list, int length, const char *identity)
{
	for (int i = 0; i < length; i++)
		if (strcmp(list[i], identity) == 0)
			return true;
	return false;
}

/* schema.name(type,type) of a function, with its declared types */
static char *
FunctionIdentity(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	Form_pg_proc form;
	StringInfoData out;

	if (!HeapTupleIsValid(tuple))
		return pstrdup("that was dropped");
	form = (Form_pg_proc) GETSTRUCT(tuple);
	initStringInfo(&out);
	appendStringInfo(&out, "%s.%s(", get_namespace_name(form->pronamespace), NameStr(form->proname));
	for (int i = 0; i < form->pronargs; i++)
		appendStringInfo(&out, "%s%s", i ? "," : "", ShortTypeName(form->proargtypes.values[i]));
	appendStringInfoChar(&out, ')');
	ReleaseSysCache(tuple);
	return out.data;
}

/*
 * Names outside pg_catalog count only when the extension made the function:
 * otherwise whoever may create in schema public could stand in for one.
 */
bool
IsOurs(Oid funcid)
{
	return getExtensionOfObject(ProcedureRelationId, funcid) == get_extension_oid("privid", true);
}

/* Did PostgreSQL itself make it? What a superuser added to pg_catalog later does not count. */
bool
IsBuiltin(Oid funcid)
{
	return funcid < FirstUnpinnedObjectId;
}

/* Each of these writes the identity of what it was asked about, listed or not. */
bool
FindAllowedFunction(Oid funcid, char **identity)
{
	*identity = FunctionIdentity(funcid);
	return (IsBuiltin(funcid) || IsOurs(funcid)) && IsListed(functions, lengthof(functions), *identity);
}

/* Types whose values come with nobody's code: PostgreSQL itself reads, writes and compares them. */
bool
IsPlainType(Oid type)
{
	Oid			element = get_element_type(type);

	switch (OidIsValid(element) ? element : type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case DATEOID:
		case TIMEOID:
		case TIMETZOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case INTERVALOID:
		case UUIDOID:
		case ANYENUMOID:
			return true;
		default:
			return get_typtype(OidIsValid(element) ? element : type) == TYPTYPE_ENUM;
	}
}

/* Functions of plain types that tell of the server, or read a text by rules from elsewhere. */
static bool
IsWithheld(const char *name)
{
	if (strncmp(name, "pg_", 3) == 0)
		return strcmp(name, "pg_has_role") != 0;
	return strncmp(name, "txid_", 5) == 0 || strncmp(name, "xml_", 4) == 0 || strcmp(name, "ts_match_tt") == 0;
}

/*
 * May this function be called on the way to a release, by whomever it is asked
 * for? Default deny: it must be listed above, or be PostgreSQL's own, change
 * nothing, and be declared for plain types alone. Others may look casts, tables
 * or statements up that somebody defined, and run them. (concat and format take
 * anything, and do nothing but write it.)
 */
bool
MayCall(Oid funcid, char **identity)
{
	HeapTuple	tuple;
	Form_pg_proc form;
	bool		plain;

	if (FindAllowedFunction(funcid, identity))
		return true;
	if (funcid == F_CONCAT || funcid == F_CONCAT_WS || funcid == F_FORMAT_TEXT_ANY)
		return true;
	tuple = IsBuiltin(funcid) ? SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid)) : NULL;
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	plain = form->provolatile != PROVOLATILE_VOLATILE && !IsWithheld(NameStr(form->proname)) &&
		IsPlainType(form->prorettype);
	for (int i = 0; i < form->pronargs; i++)
		plain = plain && IsPlainType(form->proargtypes.values[i]);
	ReleaseSysCache(tuple);
	return plain;
}

/* An aggregate. */
bool
FindAllowedAggregate(Oid aggfnoid, char **identity)
{
	*identity = FunctionIdentity(aggfnoid);
	return (IsBuiltin(aggfnoid) || IsOurs(aggfnoid)) && IsListed(aggregates, lengthof(aggregates), *identity);
}

/* An operator. */
bool
FindAllowedOperator(Oid opno, char **identity)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));
	Form_pg_operator form;
	StringInfoData out;

	if (!HeapTupleIsValid(tuple))
	{
		*identity = pstrdup("that was dropped");
		return false;
	}
	form = (Form_pg_operator) GETSTRUCT(tuple);
	initStringInfo(&out);
	appendStringInfo(&out, "%s.%s(", get_namespace_name(form->oprnamespace), NameStr(form->oprname));
	if (OidIsValid(form->oprleft))
		appendStringInfo(&out, "%s,", ShortTypeName(form->oprleft));
	appendStringInfo(&out, "%s)", ShortTypeName(form->oprright));
	ReleaseSysCache(tuple);
	*identity = out.data;
	return IsBuiltin(opno) && IsListed(operators, lengthof(operators), out.data);
}

/* A cast through text. */
bool
FindAllowedCast(Oid from, Oid to, char **identity)
{
	*identity = psprintf("cast(%s,%s)", get_typtype(from) == TYPTYPE_ENUM ? "anyenum" : ShortTypeName(from), ShortTypeName(to));
	return IsListed(casts, lengthof(casts), *identity);
}

/* privid.release(), which stands in FROM where a release does. */
Oid
ReleaseFunction(void)
{
	oidvector  *types = buildoidvector(NULL, 0);
	Oid			funcid = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("release"),
										 PointerGetDatum(types), ObjectIdGetDatum(get_namespace_oid("privid", false)));

	if (!OidIsValid(funcid) || !IsOurs(funcid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function privid.release is missing"),
				 errhint("The extension and its library differ in version: run ALTER EXTENSION privid UPDATE.")));
	return funcid;
}

/* SQL: privid.allowed_calls(), the lists as rows (kind, identity) */
Datum
privid_allowed_calls(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const struct
	{
		const char *kind;
		const char *const *list;
		int			length;
	}			lists[] = {
		{"operator", operators, lengthof(operators)},
		{"function", functions, lengthof(functions)},
		{"aggregate", aggregates, lengthof(aggregates)},
		{"cast", casts, lengthof(casts)},
	};

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < lengthof(lists); i++)
		for (int j = 0; j < lists[i].length; j++)
		{
			Datum		values[2] = {CStringGetTextDatum(lists[i].kind), CStringGetTextDatum(lists[i].list[j])};
			bool		nulls[2] = {false, false};

			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	return (Datum) 0;
}
