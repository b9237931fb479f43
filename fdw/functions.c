/*
 * functions.c: the marker of a release.
 */
#include "privid.h"

#include "fmgr.h"

PG_FUNCTION_INFO_V1(privid_release);

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
