/*
 * room.c: what only the engine's own PostgreSQL (the room) needs.
 *
 * Aggregates over float8 that cannot raise. They compute what PostgreSQL's own
 * do, with the same operations in the same order (the Youngs-Cramer algorithm
 * of float8_accum for all but the sum), but look at the state only at the end:
 * what overflowed on the way, or was not finite from the beginning, can never
 * become finite again, so that one look is enough. Where PostgreSQL's
 * aggregate would raise, or give NaN or an infinity, these give NULL.
 *
 * And ballast: a function that keeps a core busy until a given moment, so that
 * the load of the machine does not tell how long a query took.
 */
#include "privid.h"

#include <math.h>
#include <time.h>

#include "fmgr.h"
#include "miscadmin.h"

/* What float8_accum keeps: how many values, their sum, and the squares of their differences from the mean. */
typedef struct Moments
{
	double		n;
	double		sx;
	double		sxx;
} Moments;

PG_FUNCTION_INFO_V1(privid_total_sum_step);
PG_FUNCTION_INFO_V1(privid_total_sum_end);
PG_FUNCTION_INFO_V1(privid_total_moments_step);
PG_FUNCTION_INFO_V1(privid_total_avg_end);
PG_FUNCTION_INFO_V1(privid_total_var_pop_end);
PG_FUNCTION_INFO_V1(privid_total_var_samp_end);
PG_FUNCTION_INFO_V1(privid_total_stddev_pop_end);
PG_FUNCTION_INFO_V1(privid_total_stddev_samp_end);
PG_FUNCTION_INFO_V1(privid_spin);

/* Add a value to a sum; too large a sum becomes infinite and stays so, or turns into NaN. */
Datum
privid_total_sum_step(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(PG_GETARG_FLOAT8(0) + PG_GETARG_FLOAT8(1));
}

/* The sum, or NULL where it is not finite. */
Datum
privid_total_sum_end(PG_FUNCTION_ARGS)
{
	double		sum = PG_GETARG_FLOAT8(0);

	if (!isfinite(sum))
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(sum);
}

/* Take one value in, as float8_accum does, and pass over NULLs. The state lives as long as its group. */
Datum
privid_total_moments_step(PG_FUNCTION_ARGS)
{
	MemoryContext group;
	Moments    *state = PG_ARGISNULL(0) ? NULL : (Moments *) PG_GETARG_POINTER(0);
	double		before,
				value,
				difference;

	if (!AggCheckCallContext(fcinfo, &group))
		elog(ERROR, "aggregate function called in non-aggregate context");
	if (state == NULL)
		state = MemoryContextAllocZero(group, sizeof(Moments));
	if (PG_ARGISNULL(1))
		PG_RETURN_POINTER(state);

	value = PG_GETARG_FLOAT8(1);
	before = state->n;
	state->n += 1.0;
	state->sx += value;
	if (before > 0.0)
	{
		difference = value * state->n - state->sx;
		state->sxx += difference * difference / (state->n * before);
	}
	PG_RETURN_POINTER(state);
}

/* The state of an aggregate that has an answer: enough values, and none that was not finite. Else NULL. */
static Moments *
Answerable(FunctionCallInfo fcinfo, double least)
{
	Moments    *state = PG_ARGISNULL(0) ? NULL : (Moments *) PG_GETARG_POINTER(0);

	if (state == NULL || state->n < least || !isfinite(state->sx) || !isfinite(state->sxx))
		return NULL;
	return state;
}

/*
 * avg(float8). PostgreSQL's raises also where only the squares overflow, which
 * it does not need; so this is NULL there, too.
 */
Datum
privid_total_avg_end(PG_FUNCTION_ARGS)
{
	Moments    *state = Answerable(fcinfo, 1.0);

	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(state->sx / state->n);
}

/* var_pop(float8) */
Datum
privid_total_var_pop_end(PG_FUNCTION_ARGS)
{
	Moments    *state = Answerable(fcinfo, 1.0);

	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(state->sxx / state->n);
}

/* var_samp(float8), which is also variance(float8) */
Datum
privid_total_var_samp_end(PG_FUNCTION_ARGS)
{
	Moments    *state = Answerable(fcinfo, 2.0);

	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(state->sxx / (state->n - 1.0));
}

/* stddev_pop(float8) */
Datum
privid_total_stddev_pop_end(PG_FUNCTION_ARGS)
{
	Moments    *state = Answerable(fcinfo, 1.0);

	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(sqrt(state->sxx / state->n));
}

/* stddev_samp(float8), which is also stddev(float8) */
Datum
privid_total_stddev_samp_end(PG_FUNCTION_ARGS)
{
	Moments    *state = Answerable(fcinfo, 2.0);

	if (state == NULL)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(sqrt(state->sxx / (state->n - 1.0)));
}

/* Keep a core busy until the monotonic clock, in nanoseconds, reaches a moment. */
Datum
privid_spin(PG_FUNCTION_ARGS)
{
	int64		until = PG_GETARG_INT64(0);
	struct timespec now;

	do
	{
		CHECK_FOR_INTERRUPTS();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((int64) now.tv_sec * 1000000000 + now.tv_nsec < until);
	PG_RETURN_VOID();
}
