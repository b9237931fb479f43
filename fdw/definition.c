/*
 * definition.c: definitions of cameras and tables are checked when they are made.
 *
 * An event trigger hands each new or altered definition to the engine, which
 * looks at the video and the executable. The same checks are made again by
 * each release; these are for the person at the keyboard. Without an engine
 * the definition stands, with a warning, so that a restore can go through.
 */
#include "privid.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_inherits.h"
#include "commands/event_trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(privid_check_definition);

/* Have the engine look at one object, if it is ours. */
static void
CheckOne(Oid catalog, Oid object)
{
	StringInfoData out;
	text	   *reply,
			   *notices;
	char	   *notice;
	int			error;
	bool		server = catalog == ForeignServerRelationId;
	Cameras		said = {0};

	if (server ? !IsPrividServer(GetForeignServer(object)) : !IsPrividTable(object))
		return;
	CheckPreloaded();
	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	AppendJsonString(&out, "kind", server ? "server" : "table");
	if (server)
		AppendServer(&out, object);
	else
	{
		AppendJsonKey(&out, "table");
		AppendTable(&out, object, &said);
	}
	/* as privid.is_restoring(): the masks of a dump come after its tables */
	if (!check_function_bodies && superuser())
		AppendJsonBool(&out, "restoring", true);
	AppendSettings(&out);
	appendStringInfoChar(&out, '}');
	if (!TryAsk('K', out.data, 'k', NULL, &reply, &error))
	{
		ereport(WARNING,
				(errcode(ERRCODE_PRIVID_ENGINE),
				 errmsg("definition could not be checked, since the engine cannot be reached"),
				 errhint("It will be checked when it is used.")));
		return;
	}
	notices = JsonField(reply, "notices");
	for (int i = 0; notices && (notice = JsonElementString(notices, i)) != NULL; i++)
		ereport(NOTICE, (errmsg_internal("%s", notice)));
}

/* Look at a relation that was altered, and at all that inherit from it: a change goes down to them. */
static void
CheckFamily(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
		CheckOne(RelationRelationId, lfirst_oid(lc));
}

/* Is this ALTER TABLE of an ordinary table that nothing inherits from? It is none of our business. */
static bool
IsOrdinary(Node *statement)
{
	Oid			relid;

	if (!IsA(statement, AlterTableStmt))
		return false;
	relid = RangeVarGetRelid(((AlterTableStmt *) statement)->relation, NoLock, true);
	return OidIsValid(relid) && !IsPrividTable(relid) && !has_subclass(relid);
}

/* SQL: the event trigger privid.check_definition() */
Datum
privid_check_definition(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("privid.check_definition can only be called by an event trigger")));
	if (IsOrdinary(((EventTriggerData *) fcinfo->context)->parsetree))
		PG_RETURN_NULL();
	SPI_connect();
	if (SPI_execute("SELECT classid, objid FROM pg_catalog.pg_event_trigger_ddl_commands()", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list commands");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		bool		isnull;
		Oid			catalog = DatumGetObjectId(SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &isnull));
		Oid			object = DatumGetObjectId(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &isnull));

		if (catalog == ForeignServerRelationId)
			CheckOne(catalog, object);
		else if (catalog == RelationRelationId)
			CheckFamily(object);
	}
	SPI_finish();
	PG_RETURN_NULL();
}
