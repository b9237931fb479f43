/*
 * total.c: versions of PostgreSQL's functions that never raise.
 *
 * The room evaluates these where the original could raise on some value that
 * a program may output (calculus/twins.py says which).
 * Where the original gives a finite value, so do these, and the same one; where
 * it would raise they give NULL. Bounds keep values from growing step by step
 * until memory fails or a step takes for ever: numbers of type numeric beyond
 * MAX_NUMERIC or with more than MAX_SCALE digits after the point are NULL, and
 * text is cut at MAX_TEXT (room/sizes.py knows them). They depend on their
 * arguments alone.
 */
#include "shared.h"

#include <math.h>

#include "common/int.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/fmgrprotos.h"
#include "utils/varlena.h"

/* A text that is longer than this (in characters) after || is cut. */
#define MAX_TEXT 8192

/* Numbers of numeric type beyond this are given up: they would overflow the type after few more steps. */
#define MAX_NUMERIC 1e300

/* And those with more digits after the point than this: at most 1,000 digits in all, each step in microseconds. */
#define MAX_SCALE 699

/* ------------------------------------------------------------------ float8 */

#define RETURN_FINITE(value) \
	do { double result_ = (value); \
		if (!isfinite(result_)) PG_RETURN_NULL(); \
		PG_RETURN_FLOAT8(result_); } while (0)

#define FLOAT8_1(name, condition, expression) \
PG_FUNCTION_INFO_V1(name); \
Datum \
name(PG_FUNCTION_ARGS) \
{ \
	double		a = PG_GETARG_FLOAT8(0); \
\
	if (!(condition)) \
		PG_RETURN_NULL(); \
	RETURN_FINITE(expression); \
}

#define FLOAT8_2(name, condition, expression) \
PG_FUNCTION_INFO_V1(name); \
Datum \
name(PG_FUNCTION_ARGS) \
{ \
	double		a = PG_GETARG_FLOAT8(0); \
	double		b = PG_GETARG_FLOAT8(1); \
\
	if (!(condition)) \
		PG_RETURN_NULL(); \
	RETURN_FINITE(expression); \
}

/* the conditions on 0 are PostgreSQL's tests for underflow */
FLOAT8_2(privid_total_add, true, a + b)
FLOAT8_2(privid_total_sub, true, a - b)
FLOAT8_2(privid_total_mul, a == 0 || b == 0 || a * b != 0, a * b)
FLOAT8_2(privid_total_div, b != 0 && (a == 0 || isinf(b) || a / b != 0), a / b)
FLOAT8_2(privid_total_power, !(a == 0 && b < 0) && !(a < 0 && floor(b) != b) && (a == 0 || isinf(b) || pow(a, b) != 0), pow(a, b))
FLOAT8_1(privid_total_sqrt, a >= 0, sqrt(a))
FLOAT8_1(privid_total_ln, a > 0, log(a))
FLOAT8_1(privid_total_log, a > 0, log10(a))
FLOAT8_1(privid_total_exp, isinf(a) || exp(a) != 0, exp(a))

PG_FUNCTION_INFO_V1(privid_total_width_bucket);

/* width_bucket(value, low, high, count): NULL for NaN, and for buckets that there are not */
Datum
privid_total_width_bucket(PG_FUNCTION_ARGS)
{
	double		value = PG_GETARG_FLOAT8(0);
	double		low = PG_GETARG_FLOAT8(1);
	double		high = PG_GETARG_FLOAT8(2);
	int32		count = PG_GETARG_INT32(3);
	int32		bucket;

	if (isnan(value) || !isfinite(low) || !isfinite(high) || low == high || count <= 0 || count == PG_INT32_MAX)
		PG_RETURN_NULL();
	bucket = DatumGetInt32(DirectFunctionCall4(width_bucket_float8, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2),
											   PG_GETARG_DATUM(3)));
	/* bounds far apart overflow on the way */
	if (bucket < 0 || bucket > count + 1)
		PG_RETURN_NULL();
	PG_RETURN_INT32(bucket);
}

/* ------------------------------------------------------------------ whole numbers */

#define INTEGER_2(name, type_a, type_b, TYPE_A, TYPE_B, RESULT, overflow) \
PG_FUNCTION_INFO_V1(name); \
Datum \
name(PG_FUNCTION_ARGS) \
{ \
	type_a		a = PG_GETARG_##TYPE_A(0); \
	type_b		b = PG_GETARG_##TYPE_B(1); \
	RESULT##_type result = 0; \
\
	if (overflow(a, b, &result)) \
		PG_RETURN_NULL(); \
	PG_RETURN_##RESULT(result); \
}

typedef int32 INT32_type;
typedef int64 INT64_type;

/* a / b, or true where int4div would raise. */
static bool
div_s32_overflow(int32 a, int32 b, int32 *result)
{
	if (b == 0 || (a == PG_INT32_MIN && b == -1))
		return true;
	*result = a / b;
	return false;
}

/* The same for 64 bits. */
static bool
div_s64_overflow(int64 a, int64 b, int64 *result)
{
	if (b == 0 || (a == PG_INT64_MIN && b == -1))
		return true;
	*result = a / b;
	return false;
}

/* a % b, or true where int4mod would raise. */
static bool
mod_s32_overflow(int32 a, int32 b, int32 *result)
{
	if (b == 0)
		return true;
	*result = b == -1 ? 0 : a % b;
	return false;
}

/* The same for 64 bits. */
static bool
mod_s64_overflow(int64 a, int64 b, int64 *result)
{
	if (b == 0)
		return true;
	*result = b == -1 ? 0 : a % b;
	return false;
}

#define INTEGER_FAMILY(op, overflow32, overflow64) \
	INTEGER_2(privid_total_##op##_44, int32, int32, INT32, INT32, INT32, overflow32) \
	INTEGER_2(privid_total_##op##_48, int32, int64, INT32, INT64, INT64, overflow64) \
	INTEGER_2(privid_total_##op##_84, int64, int32, INT64, INT32, INT64, overflow64) \
	INTEGER_2(privid_total_##op##_88, int64, int64, INT64, INT64, INT64, overflow64)

INTEGER_FAMILY(add, pg_add_s32_overflow, pg_add_s64_overflow)
INTEGER_FAMILY(sub, pg_sub_s32_overflow, pg_sub_s64_overflow)
INTEGER_FAMILY(mul, pg_mul_s32_overflow, pg_mul_s64_overflow)
INTEGER_FAMILY(div, div_s32_overflow, div_s64_overflow)
INTEGER_2(privid_total_mod_44, int32, int32, INT32, INT32, INT32, mod_s32_overflow)
INTEGER_2(privid_total_mod_88, int64, int64, INT64, INT64, INT64, mod_s64_overflow)

PG_FUNCTION_INFO_V1(privid_total_neg_4);
PG_FUNCTION_INFO_V1(privid_total_neg_8);

/* -a, NULL for the number without a counterpart */
Datum
privid_total_neg_4(PG_FUNCTION_ARGS)
{
	int32		a = PG_GETARG_INT32(0);

	if (a == PG_INT32_MIN)
		PG_RETURN_NULL();
	PG_RETURN_INT32(-a);
}

/* The same for 64 bits. */
Datum
privid_total_neg_8(PG_FUNCTION_ARGS)
{
	int64		a = PG_GETARG_INT64(0);

	if (a == PG_INT64_MIN)
		PG_RETURN_NULL();
	PG_RETURN_INT64(-a);
}

/* ------------------------------------------------------------------ numeric */

/* The nearest double; infinite where there is none. */
static double
AsDouble(Datum numeric)
{
	return DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, numeric));
}

/* Digits after the point of a number that is neither NaN nor infinite. */
static int
Scale(Datum numeric)
{
	return DatumGetInt32(DirectFunctionCall1(numeric_scale, numeric));
}

/* Is it a number that further arithmetic can be trusted with? value is it as a double. */
static bool
IsModest(Datum numeric, double value)
{
	return !isnan(value) && fabs(value) <= MAX_NUMERIC && Scale(numeric) <= MAX_SCALE;
}

/* condition speaks of x and y, the arguments as doubles */
#define NUMERIC_2(name, function, condition) \
PG_FUNCTION_INFO_V1(name); \
Datum \
name(PG_FUNCTION_ARGS) \
{ \
	Datum		a = PG_GETARG_DATUM(0); \
	Datum		b = PG_GETARG_DATUM(1); \
	double		x = AsDouble(a); \
	double		y = AsDouble(b); \
	Datum		result; \
\
	if (!IsModest(a, x) || !IsModest(b, y) || !(condition)) \
		PG_RETURN_NULL(); \
	result = DirectFunctionCall2(function, a, b); \
	if (Scale(result) > MAX_SCALE) \
		PG_RETURN_NULL(); \
	PG_RETURN_DATUM(result); \
}

NUMERIC_2(privid_total_add_numeric, numeric_add, true)
NUMERIC_2(privid_total_sub_numeric, numeric_sub, true)
NUMERIC_2(privid_total_mul_numeric, numeric_mul, fabs(x) * fabs(y) <= MAX_NUMERIC && Scale(a) + Scale(b) <= MAX_SCALE)
NUMERIC_2(privid_total_div_numeric, numeric_div, y != 0 && fabs(x) / fabs(y) <= MAX_NUMERIC)
NUMERIC_2(privid_total_mod_numeric, numeric_mod, y != 0)

/* ------------------------------------------------------------------ casts of numbers */

PG_FUNCTION_INFO_V1(privid_total_float8_numeric);
PG_FUNCTION_INFO_V1(privid_total_int4_numeric);
PG_FUNCTION_INFO_V1(privid_total_int8_numeric);
PG_FUNCTION_INFO_V1(privid_total_int4_float8);
PG_FUNCTION_INFO_V1(privid_total_int8_float8);
PG_FUNCTION_INFO_V1(privid_total_int4_int8);

/* numeric::float8; of a number that is nearly nothing 0, never -0, which a numeric does not have */
Datum
privid_total_float8_numeric(PG_FUNCTION_ARGS)
{
	RETURN_FINITE(AsDouble(PG_GETARG_DATUM(0)) + 0.0);
}

/* numeric::int4 */
Datum
privid_total_int4_numeric(PG_FUNCTION_ARGS)
{
	bool		raises = false;
	int32		result = numeric_int4_opt_error(PG_GETARG_NUMERIC(0), &raises);

	if (raises)
		PG_RETURN_NULL();
	PG_RETURN_INT32(result);
}

/* numeric::int8; at the ends of the type the number itself decides, for no double is as good as it there */
Datum
privid_total_int8_numeric(PG_FUNCTION_ARGS)
{
	Datum		number = PG_GETARG_DATUM(0);
	double		value = AsDouble(number);

	if (!(fabs(value) < 9.2e18))
	{
		Datum		low = NumericGetDatum(int64_to_numeric(PG_INT64_MIN));
		Datum		high = NumericGetDatum(int64_to_numeric(PG_INT64_MAX));

		if (!(fabs(value) < 9.3e18))
			PG_RETURN_NULL();
		number = DirectFunctionCall2(numeric_round, number, Int32GetDatum(0));
		if (DatumGetBool(DirectFunctionCall2(numeric_lt, number, low)) || DatumGetBool(DirectFunctionCall2(numeric_gt, number, high)))
			PG_RETURN_NULL();
	}
	PG_RETURN_DATUM(DirectFunctionCall1(numeric_int8, number));
}

/* float8::int4 */
Datum
privid_total_int4_float8(PG_FUNCTION_ARGS)
{
	double		value = rint(PG_GETARG_FLOAT8(0));

	if (isnan(value) || !FLOAT8_FITS_IN_INT32(value))
		PG_RETURN_NULL();
	PG_RETURN_INT32((int32) value);
}

/* float8::int8 */
Datum
privid_total_int8_float8(PG_FUNCTION_ARGS)
{
	double		value = rint(PG_GETARG_FLOAT8(0));

	if (isnan(value) || !FLOAT8_FITS_IN_INT64(value))
		PG_RETURN_NULL();
	PG_RETURN_INT64((int64) value);
}

/* int8::int4 */
Datum
privid_total_int4_int8(PG_FUNCTION_ARGS)
{
	int64		value = PG_GETARG_INT64(0);

	if (value < PG_INT32_MIN || value > PG_INT32_MAX)
		PG_RETURN_NULL();
	PG_RETURN_INT32((int32) value);
}

/* ------------------------------------------------------------------ casts of text */

PG_FUNCTION_INFO_V1(privid_total_float8_text);
PG_FUNCTION_INFO_V1(privid_total_int4_text);
PG_FUNCTION_INFO_V1(privid_total_int8_text);
PG_FUNCTION_INFO_V1(privid_total_boolean_text);

/* Does nothing but white space follow? */
static bool
EndsHere(const char *place)
{
	while (isspace((unsigned char) *place))
		place++;
	return *place == '\0';
}

/* text::float8 */
Datum
privid_total_float8_text(PG_FUNCTION_ARGS)
{
	char	   *value = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *end;
	double		number;

	errno = 0;
	number = strtod(value, &end);
	if (end == value || !EndsHere(end) || errno == ERANGE)
		PG_RETURN_NULL();
	RETURN_FINITE(number);
}

/* A whole number with nothing but white space around it. */
static bool
ReadInteger(text *value, int64 *number)
{
	char	   *string = text_to_cstring(value);
	char	   *end;

	errno = 0;
	*number = strtoll(string, &end, 10);
	return end != string && EndsHere(end) && errno == 0;
}

/* text::int8 */
Datum
privid_total_int8_text(PG_FUNCTION_ARGS)
{
	int64		number;

	if (!ReadInteger(PG_GETARG_TEXT_PP(0), &number))
		PG_RETURN_NULL();
	PG_RETURN_INT64(number);
}

/* text::int4 */
Datum
privid_total_int4_text(PG_FUNCTION_ARGS)
{
	int64		number;

	if (!ReadInteger(PG_GETARG_TEXT_PP(0), &number) || number < PG_INT32_MIN || number > PG_INT32_MAX)
		PG_RETURN_NULL();
	PG_RETURN_INT32((int32) number);
}

/* text::boolean */
Datum
privid_total_boolean_text(PG_FUNCTION_ARGS)
{
	char	   *value = text_to_cstring(PG_GETARG_TEXT_PP(0));
	size_t		length;
	bool		result;

	while (isspace((unsigned char) *value))
		value++;
	length = strlen(value);
	while (length > 0 && isspace((unsigned char) value[length - 1]))
		length--;
	if (!parse_bool_with_len(value, length, &result))
		PG_RETURN_NULL();
	PG_RETURN_BOOL(result);
}

/* ------------------------------------------------------------------ text */

PG_FUNCTION_INFO_V1(privid_total_concat);
PG_FUNCTION_INFO_V1(privid_total_substring);
PG_FUNCTION_INFO_V1(privid_total_split_part);

/* a || b, at most MAX_TEXT characters of it */
Datum
privid_total_concat(PG_FUNCTION_ARGS)
{
	text	   *joined = DatumGetTextPP(DirectFunctionCall2(textcat, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
	int			length = pg_mbcharcliplen(VARDATA_ANY(joined), VARSIZE_ANY_EXHDR(joined), MAX_TEXT);

	PG_RETURN_TEXT_P(cstring_to_text_with_len(VARDATA_ANY(joined), length));
}

/* substring(text, from, for): NULL for a negative length */
Datum
privid_total_substring(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_INT32(2) < 0)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall3(text_substr, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2)));
}

/* split_part(text, delimiter, field): NULL for field 0 */
Datum
privid_total_split_part(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_INT32(2) == 0)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall3Coll(split_part, PG_GET_COLLATION(),
											PG_GETARG_DATUM(0), PG_GETARG_DATUM(1), PG_GETARG_DATUM(2)));
}

/* ------------------------------------------------------------------ moments and intervals */

PG_FUNCTION_INFO_V1(privid_total_sub_timestamptz);
PG_FUNCTION_INFO_V1(privid_total_extract_interval);
PG_FUNCTION_INFO_V1(privid_total_extract_timestamptz);

/* Units that extract() takes of both, to the letter; others are NULL. */
static bool
IsUnit(text *unit)
{
	static const char *const units[] = {
		"microseconds", "us", "usec", "usecs", "milliseconds", "ms", "msec", "msecs", "second", "seconds", "s", "sec", "secs",
		"minute", "minutes", "m", "min", "mins", "hour", "hours", "h", "hr", "hrs", "day", "days", "d", "month", "months", "mon",
		"mons", "quarter", "qtr", "year", "years", "y", "yr", "yrs", "decade", "decades", "century", "centuries", "c", "cent",
		"millennium", "millennia", "epoch"
	};
	char	   *name = text_to_cstring(unit);

	for (int i = 0; i < lengthof(units); i++)
		if (pg_strcasecmp(units[i], name) == 0)
			return true;
	return false;
}

/* The time between two moments, NULL where one is infinite or they are too far apart. */
Datum
privid_total_sub_timestamptz(PG_FUNCTION_ARGS)
{
	TimestampTz a = PG_GETARG_TIMESTAMPTZ(0);
	TimestampTz b = PG_GETARG_TIMESTAMPTZ(1);
	int64		ignored;

	if (TIMESTAMP_NOT_FINITE(a) || TIMESTAMP_NOT_FINITE(b) || pg_sub_s64_overflow(a, b, &ignored))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall2(timestamp_mi, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}

/* extract(unit FROM interval) */
Datum
privid_total_extract_interval(PG_FUNCTION_ARGS)
{
	if (!IsUnit(PG_GETARG_TEXT_PP(0)))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall2(extract_interval, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}

/* extract(unit FROM timestamptz) */
Datum
privid_total_extract_timestamptz(PG_FUNCTION_ARGS)
{
	if (!IsUnit(PG_GETARG_TEXT_PP(0)) || TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(1)))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(DirectFunctionCall2(extract_timestamptz, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}
