/*
 * writer.h: the state of writing a release as JSON, shared by request.c,
 * serialise.c (query levels and relations), public.c and expressions.c.
 *
 * What has no form is written too, as a refusal in its place: the engine reads
 * it and refuses the level, and another level may still be the release.
 */
#ifndef PRIVID_WRITER_H
#define PRIVID_WRITER_H

#include "privid.h"

#define MAX_RELEASE_NODES 100000
#define MAX_DEPTH 250
#define MAX_LEVELS 60

/* Rows that one public relation of a release may hold. */
#define MAX_PUBLIC_ROWS 100000

typedef struct Writer
{
	StringInfoData out;
	const char *source;
	List	   *tables;			/* relids, by their number in the request */
	List	   *readers;		/* who reads them: pairs of role and server */
	Query	   *query;			/* the level being written */
	Expr	   *case_arg;		/* x of CASE x WHEN ... */
	bool		grouped;		/* group expressions and aggregates are written by number */
	List	   *groups;			/* of a grouped level: its group expressions */
	List	   *aggs;			/* and its aggregates, as they are met */
	int			nodes;
	int			depth;			/* of expressions within each other, and of levels */
	int			levels;
} Writer;

extern void WriteRelease(Writer *w, List *release);
extern void WriteExpr(Writer *w, Node *node);
extern void WriteAggregate(Writer *w, Aggref *agg, const char *name);
extern void WritePublic(Writer *w, RangeTblEntry *rte, int rel);
extern const char *ColumnName(RangeTblEntry *rte, Var *var);
extern const char *CollationProblem(Oid collation, Oid type);
extern void WriteRefusal(Writer *w, int location, const char *what, const char *hint);

#endif
