/*
 * describe.c: cameras and tables as the engine sees them, from the catalogs.
 */
#include "privid.h"

#include "access/relscan.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_inherits.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "commands/defrem.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
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

/* Is this server a camera? */
bool
IsPrividServer(ForeignServer *server)
{
	return IsPrividWrapper(server->fdwid);
}

/* Is this table one of a camera? */
bool
IsPrividTable(Oid relid)
{
	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	return IsPrividServer(GetForeignServer(GetForeignTable(relid)->serverid));
}

/* The same for an entry of a range table. */
bool
IsPrividEntry(RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE && IsPrividTable(rte->relid);
}

/* Has a table a child or a parent now? (relhassubclass may still tell of one that is gone.) */
bool
HasFamily(Oid relid)
{
	return has_superclass(relid) || find_inheritance_children(relid, NoLock) != NIL;
}

/* "options": {...} */
static void
AppendOptions(StringInfo out, List *options)
{
	ListCell   *lc;

	OpenJson(out, "options", '{');
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

	OpenJson(out, "server", '{');
	AppendJsonString(out, "name", server->servername);
	AppendJsonInt(out, "oid", server->serverid);
	AppendJsonString(out, "owner", GetUserNameFromId(server->owner, false));
	AppendOptions(out, server->options);
	appendStringInfoChar(out, '}');
}

/* The same, in the same words for every table of a camera, whatever is heard of it between the first and the last. */
static void
AppendCamera(StringInfo out, Oid serverid, Cameras *said)
{
	ListCell   *oid,
			   *text;
	StringInfoData words;

	AppendJsonKey(out, NULL);
	forboth(oid, said->servers, text, said->words)
		if (lfirst_oid(oid) == serverid)
		{
			appendStringInfoString(out, lfirst(text));
			return;
		}
	initStringInfo(&words);
	AppendServer(&words, serverid);
	appendStringInfoString(out, words.data);
	said->servers = lappend_oid(said->servers, serverid);
	said->words = lappend(said->words, words.data);
}

/* {"role", "server"}: who reads what; the engine looks up whether that may be. */
void
AppendReader(StringInfo out, Oid role, Oid serverid)
{
	OpenJson(out, NULL, '{');
	AppendJsonInt(out, "role", role);
	AppendJsonInt(out, "server", serverid);
	appendStringInfoChar(out, '}');
}

/* The error of an enum with a cast, unless it is gone. */
static void
RefuseCast(Oid enumtype, Oid castid)
{
	Relation	rel = table_open(CastRelationId, AccessShareLock);
	HeapTuple	tuple = get_catalog_object_by_oid(rel, Anum_pg_cast_oid, castid);

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_cast cast = (Form_pg_cast) GETSTRUCT(tuple);

		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_NO_RULE),
				 errmsg("type %s of a column cannot have casts of its own", format_type_be(enumtype)),
				 errdetail("A cast is code of whoever made it, and would run with the rights of whoever asks."),
				 errhint("DROP CAST (%s AS %s); every enum is shown as text without it.",
						 format_type_be(cast->castsource), format_type_be(cast->casttarget))));
	}
	table_close(rel, AccessShareLock);
}

/*
 * Refuse an enum with a cast: PostgreSQL would call it, with the rights of
 * whoever asks, where a text is compared with a column. A cast depends on both
 * its types, and of a type's dependents there is an index: casts between
 * others' types cost nothing here.
 */
void
CheckCasts(Oid enumtype)
{
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(TypeRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(enumtype));
	scan = systable_beginscan(rel, DependReferenceIndexId, true, NULL, lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend dependent = (Form_pg_depend) GETSTRUCT(tuple);

		if (dependent->classid == CastRelationId)
			RefuseCast(enumtype, dependent->objid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* "labels": [...] of an enum, in their order */
void
AppendLabels(StringInfo out, Oid enumtype)
{
	Relation	rel = table_open(EnumRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	OpenJson(out, "labels", '[');
	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(enumtype));
	scan = systable_beginscan_ordered(rel, index_open(EnumTypIdSortOrderIndexId, AccessShareLock), NULL, 1, &key);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
		AppendJsonString(out, NULL, NameStr(((Form_pg_enum) GETSTRUCT(tuple))->enumlabel));
	index_close(scan->irel, NoLock);
	systable_endscan_ordered(scan);
	table_close(rel, AccessShareLock);
	appendStringInfoChar(out, ']');
}

/* Casts that PostgreSQL puts around a literal to give it the column's type; they change no value that the engine reads. */
static bool
IsLiteralCast(Node *node)
{
	if (IsA(node, RelabelType))
		return true;
	if (!IsA(node, FuncExpr) || list_length(((FuncExpr *) node)->args) != 1)
		return false;
	switch (((FuncExpr *) node)->funcid)
	{
		case F_FLOAT8_INT2:
		case F_FLOAT8_INT4:
		case F_FLOAT8_INT8:
		case F_FLOAT8_NUMERIC:
		case F_FLOAT8_FLOAT4:
			return true;
		default:
			return false;
	}
}

/*
 * "default": the text of a constant, as it stands in the catalog. Nothing is
 * evaluated, by nobody's rights: whatever is not a literal, plain or within the
 * cast that PostgreSQL put around it, is an error that the engine reports.
 */
static void
AppendDefault(StringInfo out, Relation rel, Form_pg_attribute att)
{
	Node	   *expr = NULL;
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	for (int i = 0; constr && i < constr->num_defval; i++)
		if (constr->defval[i].adnum == att->attnum)
			expr = stringToNode(constr->defval[i].adbin);
	while (expr && IsLiteralCast(expr))
		expr = IsA(expr, RelabelType) ? (Node *) ((RelabelType *) expr)->arg : linitial(((FuncExpr *) expr)->args);
	if (expr && IsA(expr, Const) && !att->attgenerated && !((Const *) expr)->constisnull &&
		getBaseType(((Const *) expr)->consttype) == ((Const *) expr)->consttype)
	{
		Oid			output;
		bool		varlena;

		getTypeOutputInfo(((Const *) expr)->consttype, &output, &varlena);
		AppendJsonString(out, "default", OidOutputFunctionCall(output, ((Const *) expr)->constvalue));
		return;
	}
	AppendJsonString(out, "default", NULL);
	if (att->attgenerated || att->attidentity)
		AppendJsonString(out, "default_error", "is generated");
	else if (expr && !IsA(expr, Const))
		AppendJsonString(out, "default_error", "is not a constant");
}

/* One column of a table. */
static void
AppendColumn(StringInfo out, Relation rel, Form_pg_attribute att)
{
	bool		isenum = get_typtype(att->atttypid) == TYPTYPE_ENUM;

	OpenJson(out, NULL, '{');
	AppendJsonString(out, "name", NameStr(att->attname));
	AppendJsonInt(out, "attno", att->attnum);
	AppendJsonString(out, "type", isenum ? "enum" : ShortTypeName(att->atttypid));
	AppendJsonString(out, "type_name", ShortTypeName(att->atttypid));
	if (isenum)
		CheckCasts(att->atttypid);
	if (isenum)
		AppendLabels(out, att->atttypid);
	AppendDefault(out, rel, att);
	AppendOptions(out, GetForeignColumnOptions(RelationGetRelid(rel), att->attnum));
	appendStringInfoChar(out, '}');
}

/* {...}: a foreign table with its camera, in the words in which it was described before */
void
AppendTable(StringInfo out, Oid relid, Cameras *said)
{
	Relation	rel = table_open(relid, AccessShareLock);
	ForeignTable *table = GetForeignTable(relid);
	TupleDesc	desc = RelationGetDescr(rel);

	appendStringInfoChar(out, '{');
	AppendJsonString(out, "schema", get_namespace_name(RelationGetNamespace(rel)));
	AppendJsonString(out, "name", RelationGetRelationName(rel));
	AppendJsonInt(out, "oid", relid);
	AppendJsonString(out, "owner", GetUserNameFromId(rel->rd_rel->relowner, false));
	AppendCamera(out, table->serverid, said);
	AppendOptions(out, table->options);
	OpenJson(out, "columns", '[');
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
	static const char *const names[] = {"TimeZone", "DateStyle", "IntervalStyle", "timezone_abbreviations"};

	OpenJson(out, "settings", '{');
	for (int i = 0; i < lengthof(names); i++)
		AppendJsonString(out, names[i], GetConfigOption(names[i], false, false));
	appendStringInfoChar(out, '}');
}
