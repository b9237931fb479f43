/*
 * allowed.c: the functions, operators and aggregates that may stand in a release.
 *
 * Default deny. An entry is an identity: schema, name and declared argument
 * types. Where PostgreSQL's own version can raise on some value that a program
 * may output, "total" names the function of schema privid that is evaluated in
 * its place. Which of these may touch untrusted values at all is the calculus'
 * business (calculus/functions.py); a test holds the two lists together.
 */
#include "privid.h"

#include "catalog/pg_namespace.h"
#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(privid_allowed_calls);

#define COMPARE(type) \
	{"pg_catalog.=(" type "," type ")", NULL}, {"pg_catalog.<>(" type "," type ")", NULL}, \
	{"pg_catalog.<(" type "," type ")", NULL}, {"pg_catalog.<=(" type "," type ")", NULL}, \
	{"pg_catalog.>(" type "," type ")", NULL}, {"pg_catalog.>=(" type "," type ")", NULL}
#define COMPARE2(a, b) \
	{"pg_catalog.=(" a "," b ")", NULL}, {"pg_catalog.<>(" a "," b ")", NULL}, \
	{"pg_catalog.<(" a "," b ")", NULL}, {"pg_catalog.<=(" a "," b ")", NULL}, \
	{"pg_catalog.>(" a "," b ")", NULL}, {"pg_catalog.>=(" a "," b ")", NULL}
#define ARITHMETIC(type) \
	{"pg_catalog.+(" type ")", "total_add"}, {"pg_catalog.-(" type ")", "total_sub"}, \
	{"pg_catalog.*(" type ")", "total_mul"}, {"pg_catalog./(" type ")", "total_div"}
#define TWINS(signature) {"privid." signature, NULL}, {"public." signature, NULL}

static const AllowedCall operators[] = {
	COMPARE("float8"), COMPARE("text"), COMPARE("boolean"), COMPARE("numeric"), COMPARE("anyenum"),
	COMPARE("timestamptz"), COMPARE("timestamp"), COMPARE("date"), COMPARE("time"), COMPARE("interval"),
	COMPARE("int4"), COMPARE("int8"), COMPARE2("int4", "int8"), COMPARE2("int8", "int4"),
	COMPARE2("date", "timestamptz"), COMPARE2("timestamptz", "date"), COMPARE2("date", "timestamp"),
	COMPARE2("timestamp", "date"), COMPARE2("timestamp", "timestamptz"), COMPARE2("timestamptz", "timestamp"),
	ARITHMETIC("float8,float8"), ARITHMETIC("numeric,numeric"), ARITHMETIC("int4,int4"), ARITHMETIC("int8,int8"),
	ARITHMETIC("int4,int8"), ARITHMETIC("int8,int4"),
	{"pg_catalog.-(float8)", NULL}, {"pg_catalog.@(float8)", NULL},
	{"pg_catalog.~~(text,text)", NULL}, {"pg_catalog.!~~(text,text)", NULL},
	{"pg_catalog.%(int4,int4)", "total_mod"}, {"pg_catalog.%(int8,int8)", "total_mod"},
	{"pg_catalog.%(numeric,numeric)", "total_mod"},
	{"pg_catalog.-(numeric)", NULL}, {"pg_catalog.-(int4)", "total_neg"}, {"pg_catalog.-(int8)", "total_neg"},
	{"pg_catalog.||(text,text)", "total_concat"},
	{"pg_catalog.+(timestamptz,interval)", NULL}, {"pg_catalog.-(timestamptz,interval)", NULL},
	{"pg_catalog.-(timestamptz,timestamptz)", "total_sub"}, {"pg_catalog.+(timestamp,interval)", NULL},
	{"pg_catalog.-(timestamp,interval)", NULL}, {"pg_catalog.-(timestamp,timestamp)", NULL},
	{"pg_catalog.+(date,int4)", NULL}, {"pg_catalog.-(date,int4)", NULL}, {"pg_catalog.-(date,date)", NULL},
	{"pg_catalog.+(interval,interval)", NULL}, {"pg_catalog.-(interval,interval)", NULL},
};

static const AllowedCall functions[] = {
	TWINS("range(float8,float8,float8)"),
	TWINS("minute(timestamptz)"), TWINS("hour(timestamptz)"), TWINS("day(timestamptz)"), TWINS("week(timestamptz)"),
	TWINS("month(timestamptz)"), TWINS("year(timestamptz)"), TWINS("bin(timestamptz,interval)"),
	{"pg_catalog.date_trunc(text,timestamptz)", NULL}, {"pg_catalog.date_trunc(text,timestamptz,text)", NULL},
	{"pg_catalog.date_trunc(text,timestamp)", NULL},
	{"pg_catalog.date_bin(interval,timestamptz,timestamptz)", NULL},
	{"pg_catalog.extract(text,timestamptz)", NULL}, {"pg_catalog.extract(text,timestamp)", NULL},
	{"pg_catalog.extract(text,date)", NULL}, {"pg_catalog.extract(text,interval)", "total_extract"},
	{"pg_catalog.date_part(text,timestamptz)", NULL}, {"pg_catalog.date_part(text,timestamp)", NULL},
	{"pg_catalog.timezone(text,timestamptz)", NULL}, {"pg_catalog.timezone(text,timestamp)", NULL},
	{"pg_catalog.date(timestamptz)", NULL}, {"pg_catalog.date(timestamp)", NULL},
	{"pg_catalog.timestamp(timestamptz)", NULL}, {"pg_catalog.timestamp(date)", NULL},
	{"pg_catalog.timestamptz(timestamp)", NULL}, {"pg_catalog.timestamptz(date)", NULL},
	{"pg_catalog.time(timestamptz)", NULL}, {"pg_catalog.time(timestamp)", NULL},
	{"pg_catalog.to_char(timestamptz,text)", NULL}, {"pg_catalog.to_char(timestamp,text)", NULL},
	{"pg_catalog.abs(float8)", NULL}, {"pg_catalog.floor(float8)", NULL}, {"pg_catalog.ceil(float8)", NULL},
	{"pg_catalog.ceiling(float8)", NULL}, {"pg_catalog.round(float8)", NULL}, {"pg_catalog.sign(float8)", NULL},
	{"pg_catalog.trunc(float8)", NULL},
	{"pg_catalog.lower(text)", NULL}, {"pg_catalog.upper(text)", NULL}, {"pg_catalog.length(text)", NULL},
	{"pg_catalog.like(text,text)", NULL}, {"pg_catalog.notlike(text,text)", NULL},
	{"pg_catalog.sqrt(float8)", "total_sqrt"}, {"pg_catalog.ln(float8)", "total_ln"}, {"pg_catalog.log(float8)", "total_log"},
	{"pg_catalog.exp(float8)", "total_exp"}, {"pg_catalog.power(float8,float8)", "total_power"}, {"pg_catalog.pow(float8,float8)", "total_power"},
	{"pg_catalog.abs(numeric)", NULL}, {"pg_catalog.floor(numeric)", NULL}, {"pg_catalog.ceil(numeric)", NULL},
	{"pg_catalog.ceiling(numeric)", NULL}, {"pg_catalog.round(numeric)", NULL}, {"pg_catalog.round(numeric,int4)", NULL},
	{"pg_catalog.trunc(numeric)", NULL}, {"pg_catalog.sign(numeric)", NULL},
	{"pg_catalog.char_length(text)", NULL}, {"pg_catalog.octet_length(text)", NULL}, {"pg_catalog.strpos(text,text)", NULL},
	{"pg_catalog.position(text,text)", NULL}, {"pg_catalog.left(text,int4)", NULL}, {"pg_catalog.right(text,int4)", NULL},
	{"pg_catalog.btrim(text)", NULL}, {"pg_catalog.ltrim(text)", NULL}, {"pg_catalog.rtrim(text)", NULL},
	{"pg_catalog.substring(text,int4)", NULL}, {"pg_catalog.substring(text,int4,int4)", "total_substring"},
	{"pg_catalog.substr(text,int4)", NULL}, {"pg_catalog.substr(text,int4,int4)", "total_substring"},
	{"pg_catalog.split_part(text,text,int4)", "total_split_part"}, {"pg_catalog.starts_with(text,text)", NULL},
	{"pg_catalog.text(boolean)", NULL},
	{"pg_catalog.int4(numeric)", "total_int4"}, {"pg_catalog.int8(numeric)", "total_int8"},
	{"pg_catalog.float8(numeric)", "total_float8"}, {"pg_catalog.int4(float8)", "total_int4"},
	{"pg_catalog.int8(float8)", "total_int8"}, {"pg_catalog.int4(int8)", "total_int4"},
	{"pg_catalog.int8(int4)", NULL}, {"pg_catalog.float8(int4)", NULL}, {"pg_catalog.float8(int8)", NULL},
	{"pg_catalog.numeric(int4)", NULL}, {"pg_catalog.numeric(int8)", NULL}, {"pg_catalog.numeric(float8)", NULL},
};

/* Casts that PostgreSQL makes by printing one type and reading the other */
static const AllowedCall casts[] = {
	{"cast(text,float8)", "total_float8"}, {"cast(text,int4)", "total_int4"}, {"cast(text,int8)", "total_int8"},
	{"cast(text,boolean)", "total_boolean"},
	{"cast(float8,text)", NULL}, {"cast(numeric,text)", NULL}, {"cast(int4,text)", NULL}, {"cast(int8,text)", NULL},
	{"cast(anyenum,text)", NULL}, {"cast(timestamptz,text)", NULL}, {"cast(date,text)", NULL},
};

static const AllowedCall aggregates[] = {
	{"pg_catalog.count()", NULL}, {"pg_catalog.count(any)", NULL}, {"pg_catalog.sum(numeric)", NULL},
	{"pg_catalog.sum(float8)", NULL}, {"pg_catalog.sum(int4)", NULL}, {"pg_catalog.sum(int8)", NULL},
	{"pg_catalog.avg(numeric)", NULL}, {"pg_catalog.avg(float8)", NULL}, {"pg_catalog.avg(int4)", NULL}, {"pg_catalog.avg(int8)", NULL},
	{"pg_catalog.min(int4)", NULL}, {"pg_catalog.min(int8)", NULL}, {"pg_catalog.max(int4)", NULL}, {"pg_catalog.max(int8)", NULL},
	{"pg_catalog.min(interval)", NULL}, {"pg_catalog.max(interval)", NULL}, {"pg_catalog.min(date)", NULL}, {"pg_catalog.max(date)", NULL},
	{"pg_catalog.variance(float8)", NULL}, {"pg_catalog.var_pop(float8)", NULL}, {"pg_catalog.var_samp(float8)", NULL},
	{"pg_catalog.stddev(float8)", NULL}, {"pg_catalog.stddev_pop(float8)", NULL}, {"pg_catalog.stddev_samp(float8)", NULL},
	{"pg_catalog.min(numeric)", NULL}, {"pg_catalog.min(float8)", NULL}, {"pg_catalog.min(timestamptz)", NULL}, {"pg_catalog.min(text)", NULL},
	{"pg_catalog.max(numeric)", NULL}, {"pg_catalog.max(float8)", NULL}, {"pg_catalog.max(timestamptz)", NULL}, {"pg_catalog.max(text)", NULL},
	{"pg_catalog.variance(numeric)", NULL}, {"pg_catalog.var_pop(numeric)", NULL}, {"pg_catalog.var_samp(numeric)", NULL},
	{"pg_catalog.stddev(numeric)", NULL}, {"pg_catalog.stddev_pop(numeric)", NULL}, {"pg_catalog.stddev_samp(numeric)", NULL},
};

static const AllowedCall *
Find(const AllowedCall *list, int length, const char *identity)
{
	for (int i = 0; i < length; i++)
		if (strcmp(list[i].identity, identity) == 0)
			return &list[i];
	return NULL;
}

/* schema.name(type,type) of a function, with its declared types */
static char *
FunctionIdentity(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	Form_pg_proc form;
	StringInfoData out;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", funcid);
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

static bool
IsBuiltinOrOurs(Oid funcid)
{
	return get_func_namespace(funcid) == PG_CATALOG_NAMESPACE || IsOurs(funcid);
}

const AllowedCall *
FindAllowedFunction(Oid funcid, char **identity)
{
	*identity = FunctionIdentity(funcid);
	if (!IsBuiltinOrOurs(funcid))
		return NULL;
	return Find(functions, lengthof(functions), *identity);
}

const AllowedCall *
FindAllowedAggregate(Oid aggfnoid, char **identity)
{
	*identity = FunctionIdentity(aggfnoid);
	if (!IsBuiltinOrOurs(aggfnoid))
		return NULL;
	return Find(aggregates, lengthof(aggregates), *identity);
}

const AllowedCall *
FindAllowedOperator(Oid opno, char **identity)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(opno));
	Form_pg_operator form;
	StringInfoData out;
	bool		builtin;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", opno);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	initStringInfo(&out);
	appendStringInfo(&out, "%s.%s(", get_namespace_name(form->oprnamespace), NameStr(form->oprname));
	if (OidIsValid(form->oprleft))
		appendStringInfo(&out, "%s,", ShortTypeName(form->oprleft));
	appendStringInfo(&out, "%s)", ShortTypeName(form->oprright));
	builtin = form->oprnamespace == PG_CATALOG_NAMESPACE;
	ReleaseSysCache(tuple);
	*identity = out.data;
	return builtin ? Find(operators, lengthof(operators), out.data) : NULL;
}

const AllowedCall *
FindAllowedCast(Oid from, Oid to, char **identity)
{
	*identity = psprintf("cast(%s,%s)", get_typtype(from) == TYPTYPE_ENUM ? "anyenum" : ShortTypeName(from), ShortTypeName(to));
	return Find(casts, lengthof(casts), *identity);
}

/* A function of schema privid, which must exist. */
Oid
PrividFunction(const char *name, int nargs, const Oid *argtypes)
{
	Oid			schema = get_namespace_oid("privid", false);
	oidvector  *types = buildoidvector(argtypes, nargs);
	Oid			funcid = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
										 PointerGetDatum(types), ObjectIdGetDatum(schema));

	if (!OidIsValid(funcid) || !IsBuiltinOrOurs(funcid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function privid.%s is missing", name),
				 errhint("The extension and its library differ in version: run ALTER EXTENSION privid UPDATE.")));
	return funcid;
}

Oid
ReleaseFunction(void)
{
	return PrividFunction("release", 0, NULL);
}

/* The lists as rows (kind, identity, total), for documentation and for the test that compares them. */
Datum
privid_allowed_calls(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const struct
	{
		const char *kind;
		const AllowedCall *list;
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
			const AllowedCall *call = &lists[i].list[j];
			Datum		values[3] = {CStringGetTextDatum(lists[i].kind), CStringGetTextDatum(call->identity), 0};
			bool		nulls[3] = {false, false, call->total == NULL};

			if (call->total)
				values[2] = CStringGetTextDatum(call->total);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	return (Datum) 0;
}
