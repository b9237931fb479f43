/*
 * describe.c: cameras and tables as the engine sees them, from the catalogs.
 */
#include "privid.h"

#include "access/relscan.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "catalog/pg_enum.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/indexing.h"
#include "commands/defrem.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

PGDLLEXPORT Datum privid_fdw_handler(PG_FUNCTION_ARGS);

/* Is it our wrapper? Decided by the handler's code, not by any name. */
static bool
IsPrividWrapper(Oid fdwid)
{
	ForeignDataWrapper *fdw = GetForeignDataWrapper(fdwid);
	FmgrInfo	handler;

	if (!OidIsValid(fdw->fdwhandler))
		return false;
	fmgr_info(fdw->fdwhandler, &handler);
	return handler.fn_addr == privid_fdw_handler;
}

bool
IsPrividServer(ForeignServer *server)
{
	return IsPrividWrapper(server->fdwid);
}

bool
IsPrividTable(Oid relid)
{
	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	return IsPrividServer(GetForeignServer(GetForeignTable(relid)->serverid));
}

static void
AppendOptions(StringInfo out, List *options)
{
	ListCell   *lc;

	AppendJsonKey(out, "options");
	appendStringInfoChar(out, '{');
	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		AppendJsonString(out, def->defname, defGetString(def));
	}
	appendStringInfoChar(out, '}');
}

/* "server": {...} */
void
AppendServer(StringInfo out, Oid serverid)
{
	ForeignServer *server = GetForeignServer(serverid);

	AppendJsonKey(out, "server");
	appendStringInfoChar(out, '{');
	AppendJsonString(out, "name", server->servername);
	AppendJsonInt(out, "oid", server->serverid);
	AppendJsonString(out, "owner", GetUserNameFromId(server->owner, false));
	AppendOptions(out, server->options);
	appendStringInfoChar(out, '}');
}

/* "labels": [...] of an enum, in their order */
static void
AppendLabels(StringInfo out, Oid enumtype)
{
	Relation	rel = table_open(EnumRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	AppendJsonKey(out, "labels");
	appendStringInfoChar(out, '[');
	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(enumtype));
	scan = systable_beginscan_ordered(rel, index_open(EnumTypIdSortOrderIndexId, AccessShareLock), NULL, 1, &key);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
		AppendJsonString(out, NULL, NameStr(((Form_pg_enum) GETSTRUCT(tuple))->enumlabel));
	index_close(scan->irel, NoLock);
	systable_endscan_ordered(scan);
	table_close(rel, AccessShareLock);
	appendStringInfoChar(out, ']');
}

/*
 * "default": the text of a constant. Anything but a constant is described, not
 * evaluated: a default must be the same for every chunk.
 */
static void
AppendDefault(StringInfo out, Relation rel, Form_pg_attribute att)
{
	Node	   *expr = att->atthasdef && !att->attgenerated ? build_column_default(rel, att->attnum) : NULL;

	if (expr)
		expr = eval_const_expressions(NULL, expr);
	if (expr && IsA(expr, Const) && !((Const *) expr)->constisnull)
	{
		Oid			output;
		bool		varlena;

		getTypeOutputInfo(att->atttypid, &output, &varlena);
		AppendJsonString(out, "default", OidOutputFunctionCall(output, ((Const *) expr)->constvalue));
		return;
	}
	AppendJsonString(out, "default", NULL);
	if (att->attgenerated || att->attidentity)
		AppendJsonString(out, "default_error", "is generated");
	else if (expr && !IsA(expr, Const))
		AppendJsonString(out, "default_error", "is not a constant");
}

static void
AppendColumn(StringInfo out, Relation rel, Form_pg_attribute att)
{
	bool		isenum = get_typtype(att->atttypid) == TYPTYPE_ENUM;

	AppendJsonKey(out, NULL);
	appendStringInfoChar(out, '{');
	AppendJsonString(out, "name", NameStr(att->attname));
	AppendJsonInt(out, "attno", att->attnum);
	AppendJsonString(out, "type", isenum ? "enum" : ShortTypeName(att->atttypid));
	AppendJsonString(out, "type_name", ShortTypeName(att->atttypid));
	if (isenum)
		AppendLabels(out, att->atttypid);
	AppendDefault(out, rel, att);
	appendStringInfoChar(out, '}');
}

/* {...}: a foreign table with its camera */
void
AppendTable(StringInfo out, Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	ForeignTable *table = GetForeignTable(relid);
	TupleDesc	desc = RelationGetDescr(rel);

	appendStringInfoChar(out, '{');
	AppendJsonString(out, "schema", get_namespace_name(RelationGetNamespace(rel)));
	AppendJsonString(out, "name", RelationGetRelationName(rel));
	AppendJsonInt(out, "oid", relid);
	AppendJsonString(out, "owner", GetUserNameFromId(rel->rd_rel->relowner, false));
	AppendServer(out, table->serverid);
	AppendOptions(out, table->options);
	AppendJsonKey(out, "columns");
	appendStringInfoChar(out, '[');
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			AppendColumn(out, rel, TupleDescAttr(desc, i));
	appendStringInfoString(out, "]}");
	table_close(rel, AccessShareLock);
}

/* "settings": those that the meaning of an expression can depend on */
void
AppendSettings(StringInfo out)
{
	static const char *const names[] = {"TimeZone", "DateStyle", "IntervalStyle"};

	AppendJsonKey(out, "settings");
	appendStringInfoChar(out, '{');
	for (int i = 0; i < lengthof(names); i++)
		AppendJsonString(out, names[i], GetConfigOption(names[i], false, false));
	appendStringInfoChar(out, '}');
}
