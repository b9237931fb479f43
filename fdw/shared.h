/*
 * shared.h: what both libraries are made of.
 *
 * privid.so is loaded by the served database (privid.h). privid_room.so is
 * loaded by the engine's own PostgreSQL, the room, and by nothing else
 * (room.c). Both speak with the engine and scan foreign tables; who may scan
 * what is said by each library for itself.
 */
#ifndef PRIVID_SHARED_H
#define PRIVID_SHARED_H

#include "postgres.h"

#include "compat.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"

#define PRIVID_VERSION "0.4.0"
#define PRIVID_PROTOCOL 2

/* SQLSTATEs of our own class; docs/errors.md explains each */
#define ERRCODE_PRIVID_NOT_PRELOADED	MAKE_SQLSTATE('P', 'V', '0', '0', '5')
#define ERRCODE_PRIVID_ENGINE			MAKE_SQLSTATE('P', 'V', '0', '0', '4')

/* module.c, and room.c in the room */
extern char *privid_socket;
extern void CheckPreloaded(void);

/* text.c: JSON out and in */
extern void AppendJsonKey(StringInfo out, const char *key);
extern void OpenJson(StringInfo out, const char *key, char first);
extern void AppendJsonString(StringInfo out, const char *key, const char *value);
extern void AppendJsonInt(StringInfo out, const char *key, int64 value);
extern void AppendJsonBool(StringInfo out, const char *key, bool value);
extern text *JsonField(text *object, const char *key);
extern char *JsonFieldString(text *object, const char *key);
extern char *JsonElementString(text *array, int index);
extern int	CharacterPosition(const char *source, int location);

/* wire.c: the source is the statement that the engine's positions refer to */
typedef struct RowStream RowStream;
extern void ReportUnreachable(const char *what, int error) pg_attribute_noreturn();
extern bool OpenSocket(pgsocket *sock, int *error);
extern void DropSocket(pgsocket *sock);
extern void SayHello(pgsocket sock);
extern bool Exchange(pgsocket sock, char type, const char *body, char expected, StringInfo reply);
extern void RaiseEngineError(StringInfo error, const char *source) pg_attribute_noreturn();
extern RowStream *OpenStream(void);
extern text *AskStream(RowStream *stream, char type, const char *body, char expected);
extern void AskRows(RowStream *stream, const char *body);
extern bool NextRows(RowStream *stream, StringInfo message);

/* rows.c: blocks of rows from the engine */
typedef struct RowReader RowReader;
extern RowReader *MakeRowReader(Relation rel, RowStream *stream);
extern bool NextRow(RowReader *reader, TupleTableSlot *slot);

/* What scan.c asks its library: owner.c in the served database, room.c in the room. Each raises where the answer is no. */
extern double PlanScan(PlannerInfo *root, RelOptInfo *baserel, Oid relid);
extern bool BeginScan(Oid relid, const char *source);
extern void CheckFetch(Oid relid, bool declared, const char *source);
extern void AppendScan(StringInfo out, Oid relid, RowStream *stream);

#endif
