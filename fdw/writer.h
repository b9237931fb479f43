/*
 * writer.h: the state of writing a release as JSON, shared by serialise.c
 * (query levels and relations) and expressions.c.
 */
#ifndef PRIVID_WRITER_H
#define PRIVID_WRITER_H

#include "privid.h"

#define MAX_RELEASE_NODES 100000

typedef struct Writer
{
	StringInfoData out;
	const char *source;
	List	   *tables;			/* relids, by their number in the request */
	Query	   *query;			/* the level being written */
	Expr	   *case_arg;		/* x of CASE x WHEN ... */
	bool		grouped;		/* group expressions and aggregates are written by number */
	List	   *groups;			/* of a grouped level: its group expressions */
	List	   *aggs;			/* and its aggregates, as they are met */
	int			nodes;
} Writer;

extern void WriteExpr(Writer *w, Node *node);
extern void WriteAggregate(Writer *w, Aggref *agg, const char *name);
extern void CheckCollation(Writer *w, Oid collation, Node *node);
extern void Refuse(Writer *w, int location, const char *what, const char *hint) pg_attribute_noreturn();

#endif
