/*
 * privid.h: what the files of the library share.
 *
 * A query walks forward: rewrite.c (planner hook) -> release.c (custom scan)
 * -> concrete.c, serialise.c (what the engine sees) -> client.c -> scan.c
 * (foreign scan) -> back to release.c with the answer.
 */
#ifndef PRIVID_H
#define PRIVID_H

#include "postgres.h"

#include "compat.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "utils/guc.h"

#define PRIVID_VERSION "0.3.0"
#define PRIVID_PROTOCOL 1

/* SQLSTATEs of our own class; docs/errors.md explains each */
#define ERRCODE_PRIVID_RAW_ROWS			MAKE_SQLSTATE('P', 'V', '0', '0', '1')
#define ERRCODE_PRIVID_NO_RULE			MAKE_SQLSTATE('P', 'V', '0', '0', '2')
#define ERRCODE_PRIVID_ENGINE			MAKE_SQLSTATE('P', 'V', '0', '0', '4')
#define ERRCODE_PRIVID_NOT_PRELOADED	MAKE_SQLSTATE('P', 'V', '0', '0', '5')
#define ERRCODE_PRIVID_FAILED			MAKE_SQLSTATE('P', 'V', '0', '1', '0')

/* Settings (module.c) */
extern double privid_epsilon;
extern bool privid_reuse;
extern bool privid_raw;
extern char *privid_socket;
extern bool privid_preloaded;

extern void CheckPreloaded(void);

/* allowed.c: what may be evaluated on rows */
typedef struct AllowedCall
{
	const char *identity;		/* schema.name(types) */
	const char *total;			/* function in schema privid to evaluate instead, or NULL */
} AllowedCall;

extern const AllowedCall *FindAllowedFunction(Oid funcid, char **identity);
extern const AllowedCall *FindAllowedOperator(Oid opno, char **identity);
extern const AllowedCall *FindAllowedAggregate(Oid aggfnoid, char **identity);
extern const AllowedCall *FindAllowedCast(Oid from, Oid to, char **identity);
extern bool IsOurs(Oid funcid);
extern Oid	PrividFunction(const char *name, int nargs, const Oid *argtypes);
extern Oid	ReleaseFunction(void);

/* text.c: JSON out and in */
extern void AppendJsonKey(StringInfo out, const char *key);
extern void AppendJsonString(StringInfo out, const char *key, const char *value);
extern void AppendJsonInt(StringInfo out, const char *key, int64 value);
extern void AppendJsonBool(StringInfo out, const char *key, bool value);
extern const char *ShortTypeName(Oid type);
extern text *JsonField(text *object, const char *key);
extern char *JsonFieldString(text *object, const char *key);
extern char *JsonElementString(text *array, int index);
extern int	JsonFieldInt(text *object, const char *key, int otherwise);
extern bool JsonFieldBool(text *object, const char *key);

/* describe.c: tables and servers as the engine sees them */
extern bool IsPrividTable(Oid relid);
extern bool IsPrividServer(ForeignServer *server);
extern void AppendServer(StringInfo out, Oid serverid);
extern void AppendTable(StringInfo out, Oid relid);
extern void AppendSettings(StringInfo out);

/* concrete.c: parameters become constants, raising calls become total ones */
extern Query *MakeConcrete(Query *query, ParamListInfo params);
extern Query *MakeTotal(Query *query);
extern Query *MakeCollecting(Query *concrete, text *columns);
extern SortGroupClause *MakeSortGroup(TargetEntry *tle, List *targets);

/* serialise.c */
extern char *SerialiseRelease(Query *release, List *argmax, const char *source, List **tables);
extern int	CharacterPosition(const char *source, int location);

/* guard.c */
extern void GuardRelease(Query *release, const char *source);

/* argmax.c */
extern Expr *FindArgmaxKey(Query *query);
extern Node *ReplaceArgmax(Node *node, void *context);
extern struct Aggref *MakeCountStar(void);
extern bool AsksForFirst(Query *query);

/* rewrite.c */
typedef struct PlanningFrame
{
	struct PlanningFrame *outer;
	bool		inner;			/* planning the inner query of a release */
	List	   *releases;		/* of each release, by number: its query, then its argmax as integers */
	const char *source;
	ParamListInfo params;
} PlanningFrame;

extern PlanningFrame *planning;
extern PlannedStmt *PlanInner(Query *query);
extern void InstallPlannerHook(void);
extern bool MayReadRaw(Oid relid, bool complain);

/* home.c */
extern void InstallHome(void);

/* release.c */
typedef struct Release
{
	uint64		nonce;			/* ties an inner plan to its release */
	char	   *handle;
	List	   *tables;			/* relids in the order of the request */
} Release;

extern Release *current_release;
extern uint64 planning_nonce;
extern void InstallReleaseScan(void);
extern Path *MakeReleasePath(PlannerInfo *root, RelOptInfo *rel, Index rti, int number);

/* public.c */
struct QueryEnvironment;
extern struct QueryEnvironment *CopyPublicTables(Query *query);

/* explain.c */
struct ExplainState;
extern void ExplainRelease(List *release, ParamListInfo params, const char *source, struct ExplainState *es);
extern const char *request_source;	/* statement that the engine's positions refer to */
extern char *RequestOf(Query *concrete, List *argmax, const char *source, List **tables);

/* rows.c: blocks of rows from the engine */
typedef struct RowReader RowReader;
extern RowReader *MakeRowReader(Relation rel);
extern void AddRows(RowReader *reader, StringInfo message);
extern void RewindRows(RowReader *reader);
extern bool NextRow(RowReader *reader, TupleTableSlot *slot);

/* client.c */
extern void RaiseEngineError(text *error) pg_attribute_noreturn();
extern text *Ask(char type, const char *body, char expected, char other, char *got);
extern void AskRows(const char *body, RowReader *reader);
extern void DropConnection(void);
extern bool TryAsk(char type, const char *body, char expected, text **reply);

#endif
