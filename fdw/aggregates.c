/*
 * aggregates.c: aggregates over float8 that cannot raise, for the room.
 *
 * They compute what PostgreSQL's own do, with the same operations in the same
 * order (the Youngs-Cramer algorithm of float8_accum for all but the sum), but
 * look at the state only at the end: what overflowed on the way, or was not
 * finite from the beginning, can never become finite again, so that one look is
 * enough. Where PostgreSQL's aggregate would raise, or give NaN or an infinity,
 * these give NULL.
 */
#include "shared.h"

#include <math.h>

#include "fmgr.h"

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

#define MOMENTS_END(name, least, expression) \
PG_FUNCTION_INFO_V1(name); \
Datum \
name(PG_FUNCTION_ARGS) \
{ \
	Moments    *state = Answerable(fcinfo, least); \
\
	if (state == NULL) \
		PG_RETURN_NULL(); \
	PG_RETURN_FLOAT8(expression); \
}

/* PostgreSQL's avg raises also where only the squares overflow, which it does not need; so this is NULL there, too. */
MOMENTS_END(privid_total_avg_end, 1.0, state->sx / state->n)
MOMENTS_END(privid_total_var_pop_end, 1.0, state->sxx / state->n)
MOMENTS_END(privid_total_stddev_pop_end, 1.0, sqrt(state->sxx / state->n))
/* those of a sample are also variance and stddev */
MOMENTS_END(privid_total_var_samp_end, 2.0, state->sxx / (state->n - 1.0))
MOMENTS_END(privid_total_stddev_samp_end, 2.0, sqrt(state->sxx / (state->n - 1.0)))
