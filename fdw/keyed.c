/*
 * keyed.c: hash functions with a secret key, for the engine's own server.
 *
 * PostgreSQL's hash functions are public and easily inverted: a program can
 * write any number of texts with one hash, and then a hash table of n rows
 * takes n * n comparisons (10,000 rows: two seconds instead of 14
 * milliseconds). When it writes them only if somebody is seen, time tells. With
 * a key that nobody knows all values are alike. room/keyed.sql puts these
 * functions in the place of PostgreSQL's own, so that every hash table of the
 * server has them: groups, joins, set operations, lists.
 *
 * The hash is SipHash with one round for each word and three at the end, as
 * Aumasson and Bernstein describe it. What is equal has the same hash, within
 * an operator family also across types.
 */
#include "shared.h"

#include <math.h>

#include "access/parallel.h"
#include "common/int128.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

static uint64 key[2];
static bool key_made = false;

/* A process has a key of its own, made when it is first needed. */
static void
MakeKey(void)
{
	if (IsParallelWorker())
		elog(ERROR, "hash functions with a key cannot be shared by processes");
	if (!pg_strong_random(key, sizeof(key)))
		elog(ERROR, "could not make a key");
	key_made = true;
}

#define ROTATE(x, by) (((x) << (by)) | ((x) >> (64 - (by))))
#define ROUND(a, b, c, d) \
	do { \
		a += b; c += d; b = ROTATE(b, 13) ^ a; d = ROTATE(d, 16) ^ c; \
		a = ROTATE(a, 32) + d; c += b; d = ROTATE(d, 21) ^ a; b = ROTATE(b, 17) ^ c; \
		c = ROTATE(c, 32); \
	} while (0)

/* The hash of so many bytes. */
static Datum
HashBytes(const void *bytes, size_t length)
{
	const char *place = bytes;
	uint64		a,
				b,
				c,
				d,
				word;

	if (!key_made)
		MakeKey();
	a = key[0] ^ UINT64CONST(0x736f6d6570736575);
	b = key[1] ^ UINT64CONST(0x646f72616e646f6d);
	c = key[0] ^ UINT64CONST(0x6c7967656e657261);
	d = key[1] ^ UINT64CONST(0x7465646279746573);
	for (size_t left = length / 8; left > 0; left--, place += 8)
	{
		memcpy(&word, place, 8);
		d ^= word;
		ROUND(a, b, c, d);
		a ^= word;
	}
	/* the last word holds what is left, and the length */
	word = 0;
	memcpy(&word, place, length % 8);
	word |= (uint64) length << 56;
	d ^= word;
	ROUND(a, b, c, d);
	a ^= word;
	c ^= 0xff;
	for (int i = 0; i < 3; i++)
		ROUND(a, b, c, d);
	word = a ^ b ^ c ^ d;
	return UInt32GetDatum((uint32) (word ^ (word >> 32)));
}

/* Whole numbers of any width are one family, and moments are whole numbers too. */
static Datum
HashWhole(int64 value)
{
	return HashBytes(&value, sizeof(value));
}

/* Of numbers that float8 equates. */
static Datum
HashFloat(float8 value)
{
	if (value == 0)
		value = 0;				/* -0 equals 0 */
	if (isnan(value))
		value = get_float8_nan();
	return HashBytes(&value, sizeof(value));
}

/* value is the argument; hash its hash */
#define KEYED(name, type, argument, hash) \
PG_FUNCTION_INFO_V1(name); \
Datum \
name(PG_FUNCTION_ARGS) \
{ \
	type		value = argument(0); \
\
	PG_RETURN_DATUM(hash); \
}

/* A string, or a name, which is compared with texts in one family. */
static Datum
HashString(const char *value)
{
	return HashBytes(value, strlen(value));
}

/* 1.0 equals 1.00 */
static Datum
HashNumeric(Numeric value)
{
	char	   *digits = numeric_normalize(value);
	Datum		hash = HashString(digits);

	pfree(digits);
	return hash;
}

/* A month is 30 days and a day 24 hours, as interval_eq has it. */
static Datum
HashInterval(Interval *value)
{
	INT128		span = int64_to_int128(value->time);

	int128_add_int64_mul_int64(&span, (int64) value->month * DAYS_PER_MONTH + value->day, USECS_PER_DAY);
	return HashBytes(&span, sizeof(span));
}

KEYED(privid_keyed_name, Name, PG_GETARG_NAME, HashString(NameStr(*value)))
KEYED(privid_keyed_float4, float4, PG_GETARG_FLOAT4, HashFloat(value))
KEYED(privid_keyed_float8, float8, PG_GETARG_FLOAT8, HashFloat(value))
KEYED(privid_keyed_int2, int16, PG_GETARG_INT16, HashWhole(value))
/* also date */
KEYED(privid_keyed_int4, int32, PG_GETARG_INT32, HashWhole(value))
/* also timestamp, timestamptz and time */
KEYED(privid_keyed_int8, int64, PG_GETARG_INT64, HashWhole(value))
KEYED(privid_keyed_boolean, bool, PG_GETARG_BOOL, HashWhole(value))
KEYED(privid_keyed_enum, Oid, PG_GETARG_OID, HashWhole(value))
KEYED(privid_keyed_numeric, Numeric, PG_GETARG_NUMERIC, HashNumeric(value))
KEYED(privid_keyed_interval, Interval *, PG_GETARG_INTERVAL_P, HashInterval(value))

PG_FUNCTION_INFO_V1(privid_keyed_text);

/* Texts are equal if their bytes are, in every collation that a database can have. */
Datum
privid_keyed_text(PG_FUNCTION_ARGS)
{
	text	   *value = PG_GETARG_TEXT_PP(0);
	Datum		hash = HashBytes(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));

	PG_FREE_IF_COPY(value, 0);
	PG_RETURN_DATUM(hash);
}
