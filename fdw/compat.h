/*
 * compat.h: everything that differs between PostgreSQL versions, and nothing else.
 *
 * Only PostgreSQL 15 is supported. A port starts here: permission checks moved
 * from range table entries to their own list in 16, event trigger and explain
 * interfaces changed in 17.
 */
#ifndef PRIVID_COMPAT_H
#define PRIVID_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "this library is for PostgreSQL 15"
#endif

#endif
