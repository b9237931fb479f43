/*
 * invoker.c: who asks, seen from inside a function that has rights of its own.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(privid_call_handler);
PG_FUNCTION_INFO_V1(privid_invoker);

/* Who called the function of language privid that runs now, if one does. */
static Oid	invoker = InvalidOid;

/* The role whose rights a function of language privid has. */
static Oid
OwnerOf(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", funcid);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Language privid: PL/pgSQL with the rights of the function's owner, as SECURITY
 * DEFINER has them, that knows the role whose rights its caller had. PostgreSQL
 * does not tell it: session_user and the setting "role" are the session's, and
 * stay so while somebody else's SECURITY DEFINER code runs in it.
 */
Datum
privid_call_handler(PG_FUNCTION_ARGS)
{
	PGFunction	plpgsql = load_external_function("$libdir/plpgsql", "plpgsql_call_handler", true, NULL);
	Oid			owner = OwnerOf(fcinfo->flinfo->fn_oid);
	Oid			before = invoker;
	Oid			user;
	int			context;
	Datum		result;

	GetUserIdAndSecContext(&user, &context);
	PG_TRY();
	{
		invoker = user;
		SetUserIdAndSecContext(owner, context | SECURITY_LOCAL_USERID_CHANGE);
		result = plpgsql(fcinfo);
	}
	PG_FINALLY();
	{
		invoker = before;
		SetUserIdAndSecContext(user, context);
	}
	PG_END_TRY();
	return result;
}

/* Who asks: the caller of the function of language privid that runs; where none does, the current role. */
Datum
privid_invoker(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(GetUserNameFromId(OidIsValid(invoker) ? invoker : GetUserId(), false)));
}
