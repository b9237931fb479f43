/*
 * functions.c: the marker of a release, and who asks.
 */
#include "privid.h"

#include "fmgr.h"
#include "miscadmin.h"

PG_FUNCTION_INFO_V1(privid_release);
PG_FUNCTION_INFO_V1(privid_is_restricted);

/* The planner hook puts this function where a release stands; it is never called. */
Datum
privid_release(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_RAW_ROWS),
			 errmsg("privid.release cannot be called directly"),
			 errhint("Write an aggregate over a foreign table of a camera.")));
	PG_RETURN_NULL();			/* not reached */
}

/* Does code of a table's owner run, in a command (VACUUM, REINDEX, REFRESH) of somebody else's? */
Datum
privid_is_restricted(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(InSecurityRestrictedOperation());
}
