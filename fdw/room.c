/*
 * room.c: the library of the engine's own PostgreSQL, the room.
 *
 * It makes the scans of foreign tables that name a handle, under which the
 * engine gives rows out; nobody but the engine has a session here. What a
 * release evaluates is in total.c, aggregates.c, keyed.c and range.c. And
 * there is ballast: a function that keeps a core busy until a given moment, so
 * that the load of the machine does not tell how long a query took.
 */
#include "shared.h"

#include <time.h>

#include "commands/defrem.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

char	   *privid_socket = NULL;
static bool preloaded = false;

void		_PG_init(void);

PG_FUNCTION_INFO_V1(privid_spin);

/* The one setting. In a server that did not start with this library there is none, and nothing is scanned. */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	preloaded = true;
	DefineCustomStringVariable("privid.socket",
							   "The Unix socket of the engine.",
							   NULL, &privid_socket, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	MarkGUCPrefixReserved("privid");
}

/* Only the room preloads this library. */
void
CheckPreloaded(void)
{
	if (!preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_NOT_PRELOADED),
				 errmsg("library \"privid_room\" is for the engine's own server")));
}

/* An option of a foreign table of the room; NULL if it has none of that name. */
static char *
RoomOption(Oid relid, const char *name)
{
	ListCell   *lc;

	foreach(lc, GetForeignTable(relid)->options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			return defGetString(lfirst_node(DefElem, lc));
	return NULL;
}

/* How many rows the table can have is public, and written on it. */
double
PlanScan(PlannerInfo *root, RelOptInfo *baserel, Oid relid)
{
	char	   *most = RoomOption(relid, "rows");

	return most ? Max(strtod(most, NULL), 1) : 1000;
}

/* Whoever has a session in the room may scan. */
bool
BeginScan(Oid relid, const char *source)
{
	return false;
}

/* And fetch. */
void
CheckFetch(Oid relid, bool declared, const char *source)
{
}

/* Which rows: the handle of this release, and the table's number there. */
void
AppendScan(StringInfo out, Oid relid, RowStream *stream)
{
	AppendJsonString(out, "handle", RoomOption(relid, "handle"));
	AppendJsonInt(out, "table", pg_strtoint32(RoomOption(relid, "number")));
}

/* Keep a core busy until the monotonic clock, in nanoseconds, reaches a moment. */
Datum
privid_spin(PG_FUNCTION_ARGS)
{
	int64		until = PG_GETARG_INT64(0);
	struct timespec now;

	do
	{
		CHECK_FOR_INTERRUPTS();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((int64) now.tv_sec * 1000000000 + now.tv_nsec < until);
	PG_RETURN_VOID();
}
