/*
 * owner.c: who may scan a foreign table in the served database.
 *
 * The owner of the camera who asked for raw rows, and nobody else, whatever
 * the planner hook let through.
 */
#include "privid.h"

#include "foreign/foreign.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "utils/inval.h"

/* A statement that raw.c approved; the estimate is made of nothing that a video could change. */
double
PlanScan(PlannerInfo *root, RelOptInfo *baserel, Oid relid)
{
	CheckPreloaded();
	if (!IsApproved(planner_rt_fetch(baserel->relid, root)))
		RefuseRaw(relid);
	return 1000;
}

/* The same question again as execution begins; true of the statement of a cursor. */
bool
BeginScan(Oid relid, const char *source)
{
	AcceptInvalidationMessages();
	CheckRawScan(relid, source);
	return IsDeclared(relid);
}

/* And again before each row. */
void
CheckFetch(Oid relid, bool declared, const char *source)
{
	CheckRawFetch(relid, declared, source);
}

/* Which rows: those of a handle that the engine gives for this one table, having heard of none that BeginScan refused. */
void
AppendScan(StringInfo out, Oid relid, RowStream *stream)
{
	StringInfoData ask;
	Cameras		said = {0};

	AcceptInvalidationMessages();
	initStringInfo(&ask);
	appendStringInfoChar(&ask, '{');
	OpenJson(&ask, "tables", '[');
	AppendTable(&ask, relid, &said);
	appendStringInfoChar(&ask, ']');
	AppendJsonString(&ask, "role", GetUserNameFromId(GetUserId(), false));
	AppendJsonInt(&ask, "role_oid", GetUserId());
	OpenJson(&ask, "readers", '[');
	AppendReader(&ask, GetUserId(), GetForeignTable(relid)->serverid);
	AppendReader(&ask, GetOuterUserId(), GetForeignTable(relid)->serverid);
	appendStringInfoChar(&ask, ']');
	AppendSettings(&ask);
	appendStringInfoChar(&ask, '}');
	AppendJsonString(out, "handle", JsonFieldString(AskStream(stream, 'W', ask.data, 'r'), "handle"));
	AppendJsonInt(out, "table", 0);
}
