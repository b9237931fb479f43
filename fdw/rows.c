/*
 * rows.c: blocks of rows from the engine, read where they lie.
 *
 * A block holds one chunk's rows column by column (docs/protocol.md). Nothing
 * is copied until a row is asked for, except text, which needs its header.
 * One message is held at a time; its layout is checked once, when it arrives.
 * Both libraries have it.
 */
#include "shared.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* The first three are of the whole block. */
typedef enum ColumnKind
{
	COLUMN_CHUNK, COLUMN_REGION, COLUMN_FAILED, COLUMN_FLOAT8, COLUMN_BOOLEAN, COLUMN_TEXT, COLUMN_ENUM, COLUMN_DROPPED
} ColumnKind;

typedef struct EnumLabel
{
	NameData	label;
	Oid			value;
} EnumLabel;

typedef struct ColumnReader
{
	ColumnKind	kind;
	EnumLabel  *labels;			/* of an enum: all of them, read beforehand */
	int			label_count;
	/* place in the current block */
	const char *lengths;		/* text, enum: where the length of the next value is */
	const char *data;			/* the next value */
} ColumnReader;

struct RowReader
{
	int			natts;
	ColumnReader *columns;
	RowStream  *stream;
	StringInfoData message;		/* the one that is being read */
	const char *place;			/* in it: the next block */
	const char *end;
	uint32		left;			/* rows left in the current block */
	int64		chunk;
	bool		failed;
	const char *region;
	uint16		region_length;
	MemoryContext values;		/* of the current row */
};

/* All labels of an enum: looking them up one by one would touch the catalog as the rows come. */
static void
ReadLabels(ColumnReader *column, Oid type)
{
	Relation	rel = table_open(EnumRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			room = 16;

	column->labels = palloc(sizeof(EnumLabel) * room);
	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(type));
	scan = systable_beginscan(rel, EnumTypIdLabelIndexId, true, NULL, 1, &key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_enum form = (Form_pg_enum) GETSTRUCT(tuple);

		if (column->label_count == room)
			column->labels = repalloc(column->labels, sizeof(EnumLabel) * (room *= 2));
		column->labels[column->label_count].label = form->enumlabel;
		column->labels[column->label_count++].value = form->oid;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* The enum's value for a label. */
static Oid
FindLabel(ColumnReader *column, const char *label, uint32 length)
{
	for (int i = 0; i < column->label_count; i++)
	{
		const char *name = NameStr(column->labels[i].label);

		if (strncmp(name, label, length) == 0 && length < NAMEDATALEN && name[length] == '\0')
			return column->labels[i].value;
	}
	ereport(ERROR,
			(errcode(ERRCODE_PRIVID_ENGINE),
			 errmsg("the engine sent rows of another shape")));
	return InvalidOid;			/* not reached */
}

/* A reader for a foreign table's rows: each column by its type. */
RowReader *
MakeRowReader(Relation rel, RowStream *stream)
{
	TupleDesc	desc = RelationGetDescr(rel);
	RowReader  *reader = palloc0(sizeof(RowReader));

	reader->natts = desc->natts;
	reader->columns = palloc0(sizeof(ColumnReader) * desc->natts);
	reader->stream = stream;
	initStringInfo(&reader->message);
	reader->values = AllocSetContextCreate(CurrentMemoryContext, "privid row", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		ColumnReader *column = &reader->columns[i];

		if (att->attisdropped)
			column->kind = COLUMN_DROPPED;
		else if (strcmp(NameStr(att->attname), "chunk") == 0)
			column->kind = COLUMN_CHUNK;
		else if (strcmp(NameStr(att->attname), "region") == 0)
			column->kind = COLUMN_REGION;
		else if (strcmp(NameStr(att->attname), "failed") == 0)
			column->kind = COLUMN_FAILED;
		else if (att->atttypid == FLOAT8OID)
			column->kind = COLUMN_FLOAT8;
		else if (att->atttypid == BOOLOID)
			column->kind = COLUMN_BOOLEAN;
		else if (att->atttypid == TEXTOID)
			column->kind = COLUMN_TEXT;
		else if (get_typtype(att->atttypid) == TYPTYPE_ENUM)
		{
			column->kind = COLUMN_ENUM;
			ReadLabels(column, att->atttypid);
		}
		else
			elog(ERROR, "unexpected type of column \"%s\"", NameStr(att->attname));
	}
	return reader;
}

/* Refuse a block that ends too soon. */
static void
CheckRoom(const char *place, const char *end, uint64 needed)
{
	if (needed > (uint64) (end - place))
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_ENGINE),
				 errmsg("the engine sent rows of another shape")));
}

/* Stand at the first row of the block at place; returns where the next block begins. */
static const char *
OpenBlock(RowReader *reader, const char *place, const char *end)
{
	CheckRoom(place, end, 15);
	memcpy(&reader->left, place, 4);
	memcpy(&reader->chunk, place + 4, 8);
	reader->failed = place[12] != 0;
	memcpy(&reader->region_length, place + 13, 2);
	place += 15;
	CheckRoom(place, end, reader->region_length);
	reader->region = place;
	place += reader->region_length;

	for (int i = 0; i < reader->natts; i++)
	{
		ColumnReader *column = &reader->columns[i];
		uint32		length;

		if (column->kind <= COLUMN_FAILED || column->kind == COLUMN_DROPPED)
			continue;
		CheckRoom(place, end, 4);
		memcpy(&length, place, 4);
		place += 4;
		CheckRoom(place, end, length);
		if (column->kind == COLUMN_TEXT || column->kind == COLUMN_ENUM)
		{
			CheckRoom(place, place + length, (uint64) reader->left * 4);
			column->lengths = place;
			column->data = place + (uint64) reader->left * 4;
		}
		else
		{
			CheckRoom(place, place + length, (uint64) reader->left * (column->kind == COLUMN_FLOAT8 ? 8 : 1));
			column->data = place;
		}
		place += length;
	}
	return place;
}

/* Are the lengths of a text column's values those of its data? */
static void
CheckLengths(RowReader *reader, const char *next)
{
	for (int i = 0; i < reader->natts; i++)
	{
		ColumnReader *column = &reader->columns[i];
		uint64		total = 0;

		if (column->kind != COLUMN_TEXT && column->kind != COLUMN_ENUM)
			continue;
		for (uint32 row = 0; row < reader->left; row++)
		{
			uint32		length;

			memcpy(&length, column->lengths + (uint64) row * 4, 4);
			total += length;
		}
		CheckRoom(column->data, next, total);
	}
}

/* Stand before the first block of the next message, after walking its blocks once; false when there is none. */
static bool
OpenMessage(RowReader *reader)
{
	const char *place;

	if (!NextRows(reader->stream, &reader->message))
		return false;
	reader->place = place = reader->message.data;
	reader->end = place + reader->message.len;
	while (place < reader->end)
	{
		place = OpenBlock(reader, place, reader->end);
		CheckLengths(reader, place);
	}
	reader->left = 0;
	return true;
}

/* Fill the slot with the next row; false at the end. */
bool
NextRow(RowReader *reader, TupleTableSlot *slot)
{
	MemoryContext caller;

	while (reader->left == 0)
	{
		if (reader->place < reader->end)
			reader->place = OpenBlock(reader, reader->place, reader->end);
		else if (!OpenMessage(reader))
			return false;
	}
	reader->left--;
	MemoryContextReset(reader->values);
	caller = MemoryContextSwitchTo(reader->values);
	for (int i = 0; i < reader->natts; i++)
	{
		ColumnReader *column = &reader->columns[i];
		uint32		length;

		slot->tts_isnull[i] = false;
		switch (column->kind)
		{
			case COLUMN_CHUNK:
				slot->tts_values[i] = TimestampTzGetDatum(reader->chunk);
				break;
			case COLUMN_REGION:
				slot->tts_values[i] = PointerGetDatum(cstring_to_text_with_len(reader->region, reader->region_length));
				break;
			case COLUMN_FAILED:
				slot->tts_values[i] = BoolGetDatum(reader->failed);
				break;
			case COLUMN_FLOAT8:
				{
					float8		value;

					memcpy(&value, column->data, 8);
					column->data += 8;
					slot->tts_values[i] = Float8GetDatum(value);
					break;
				}
			case COLUMN_BOOLEAN:
				slot->tts_values[i] = BoolGetDatum(*column->data++ != 0);
				break;
			case COLUMN_TEXT:
			case COLUMN_ENUM:
				memcpy(&length, column->lengths, 4);
				column->lengths += 4;
				if (column->kind == COLUMN_TEXT)
					slot->tts_values[i] = PointerGetDatum(cstring_to_text_with_len(column->data, length));
				else
					slot->tts_values[i] = ObjectIdGetDatum(FindLabel(column, column->data, length));
				column->data += length;
				break;
			case COLUMN_DROPPED:
				slot->tts_isnull[i] = true;
				break;
		}
	}
	MemoryContextSwitchTo(caller);
	return true;
}
