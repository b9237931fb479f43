/*
 * privid.h: what the files of the served database's library share.
 *
 * A statement walks forward: hook.c (planner hook) -> levels.c (which level is
 * the release) -> split.c (the release and what stays ordinary SQL) ->
 * release.c (custom scan) -> request.c, concrete.c, serialise.c,
 * expressions.c, public.c (what the engine is asked) -> client.c -> back to
 * release.c with the answer. Rows of a camera never enter this process, but
 * for an owner who asked for them (raw.c, owner.c, scan.c, rows.c).
 */
#ifndef PRIVID_H
#define PRIVID_H

#include "shared.h"

#include "foreign/foreign.h"
#include "nodes/parsenodes.h"
#include "utils/guc.h"

/* SQLSTATEs of our own class; docs/errors.md explains each */
#define ERRCODE_PRIVID_RAW_ROWS			MAKE_SQLSTATE('P', 'V', '0', '0', '1')
#define ERRCODE_PRIVID_NO_RULE			MAKE_SQLSTATE('P', 'V', '0', '0', '2')

/* module.c: settings */
extern double privid_epsilon;
extern bool privid_reuse;
extern bool privid_raw;
extern int	privid_allowance;

/* allowed.c: what may be evaluated on rows */
extern bool FindAllowedFunction(Oid funcid, char **identity);
extern bool FindAllowedOperator(Oid opno, char **identity);
extern bool FindAllowedAggregate(Oid aggfnoid, char **identity);
extern bool FindAllowedCast(Oid from, Oid to, char **identity);
extern bool MayCall(Oid funcid, char **identity);
extern bool IsPlainType(Oid type);
extern bool IsBuiltin(Oid funcid);
extern bool IsOurs(Oid funcid);
extern const char *ShortTypeName(Oid type);
extern Oid	ReleaseFunction(void);

/* describe.c: tables and servers as the engine sees them */
typedef struct Cameras
{
	List	   *servers;		/* those that a request has described */
	List	   *words;			/* in which it did so */
} Cameras;

extern bool IsPrividTable(Oid relid);
extern bool IsPrividEntry(RangeTblEntry *rte);
extern bool IsPrividServer(ForeignServer *server);
extern bool HasFamily(Oid relid);
extern void AppendServer(StringInfo out, Oid serverid);
extern void AppendReader(StringInfo out, Oid role, Oid serverid);
extern void AppendTable(StringInfo out, Oid relid, Cameras *said);
extern void AppendLabels(StringInfo out, Oid enumtype);
extern void AppendSettings(StringInfo out);

/* A part of a statement that is refused, as the engine will hear of it: it is data, so that another level can still be the release. */
typedef struct Refusal
{
	int			sqlstate;
	const char *message;
	const char *detail;
	const char *hint;
	int			location;
} Refusal;

extern void RaiseRefusal(const Refusal *refusal, const char *source) pg_attribute_noreturn();

/* hook.c */
typedef struct Statement
{
	const char *source;
	ParamListInfo params;
	List	   *entries;		/* range table entries that went into releases: the executor checks their permissions */
	List	   *decided;		/* Query: levels about which the engine was asked, and ... */
	List	   *chosen;			/* ... those of them that are releases */
	int			copied;			/* how many nodes were copied (levels.c) */
} Statement;

extern void InstallPlannerHook(void);
extern List *RelationsOf(Node *tree);
extern bool MentionsPrivid(Query *query);

/* levels.c */
extern void ProcessQuery(Query *query, Statement *statement);

/* split.c: a release, by its query and the places of its argmax */
extern List *DetachRelease(Query *query, Refusal *refusal);
#define ReleaseQuery(release) linitial_node(Query, release)
#define ReleaseArgmax(release) ((List *) lsecond(release))

/* argmax.c */
extern Expr *FindArgmaxKey(Query *query, Refusal *refusal);
extern Node *ReplaceArgmax(Node *node, void *context);
extern struct Aggref *MakeCountStar(void);
extern bool AsksForFirst(Query *query);

/* concrete.c */
extern bool HasForeignType(Node *node);
extern bool FindForeignCode(Node *node, void *refusal);
extern Node *FoldConstants(Node *node);
extern Query *MakeConcrete(Query *query, ParamListInfo params);
extern Query *MakePlain(Query *query);
extern bool ListSeries(Node *node, void *context);

/* request.c: what the engine is asked */
typedef struct Candidate
{
	int			number;
	bool		raw;			/* its rows come from raw rows: no level below can be the release instead */
	List	   *release;		/* NIL for a level that does not aggregate */
	Refusal		refusal;		/* message NULL: none */
	List	   *concrete;		/* the release as it is in one execution; request.c */
	List	   *below;			/* Candidate */
} Candidate;

extern char *RequestOf(List *release, ParamListInfo params, const char *source);
extern char *RequestForChoice(Candidate *top, ParamListInfo params, const char *source);

/* raw.c: raw rows for owners */
extern bool IsClientAtWork(void);
extern bool ReadsRaw(Query *query, const char *source);
extern void RefuseRaw(Oid relid) pg_attribute_noreturn();
extern void CheckRawScan(Oid relid, const char *source);
extern void CheckRawFetch(Oid relid, bool declared, const char *source);
extern bool IsDeclared(Oid relid);
extern void ApproveRawStatement(Query *query, const char *source);
extern bool IsApproved(RangeTblEntry *rte);

/* refresh.c */
extern void RefuseDefinition(Node *statement);

/* roles.c */
extern void CheckRoleStatement(Node *statement);

/* grants.c */
extern void CheckGrantStatement(Node *statement);

/* home.c */
extern void InstallUtilityHook(void);

/* locks.c */
extern void CheckLocks(Node *statement);

/* connections.c */
extern void InstallSessionHook(void);
extern Node *ClientUtility(void);
extern bool RunsInside(void);
extern void CheckCasts(Oid enumtype);

/* release.c */
extern void InstallReleaseScan(void);
extern void RaiseChanged(const char *relation) pg_attribute_noreturn();
extern Path *MakeReleasePath(PlannerInfo *root, RelOptInfo *rel, List *release);

/* explain.c */
struct ExplainState;
extern void ExplainRelease(List *release, ParamListInfo params, const char *source, struct ExplainState *es);

/* preview.c */
extern bool IsPreviewing(void);

/* client.c: the source is the statement that the engine's positions refer to */
extern text *Ask(char type, const char *body, char expected, const char *source);
extern bool TryAsk(char type, const char *body, char expected, const char *source, text **reply, int *error);

#endif
