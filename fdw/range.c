/*
 * range.c: range(), which clamps values. Both libraries have it.
 */
#include "shared.h"

#include <math.h>

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

PG_FUNCTION_INFO_V1(privid_range);

/*
 * Number of decimals of the grid on which values of a range live: six
 * significant digits of the larger bound, whole numbers at least, and never
 * finer than twelve. udf/grid.py says the same.
 */
static int
GridDecimals(double low, double high)
{
	static const double powers[] = {
		1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1,
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
	1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
	double		bound = Max(fabs(low), fabs(high));
	int			digits = -12;

	if (bound == 0)
		return 0;
	while (bound > powers[digits + 12])
		digits++;
	return -Max(digits - 12, Min(0, digits - 6));
}

/*
 * Clamp to [low, high] and snap to the range's grid. NULL and NaN are low, so
 * the result is never NULL and sums of it are exact in any order.
 */
Datum
privid_range(PG_FUNCTION_ARGS)
{
	double		low,
				high,
				value;
	Datum		exact;

	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("bounds of range must not be null")));
	low = PG_GETARG_FLOAT8(1);
	high = PG_GETARG_FLOAT8(2);
	if (!isfinite(low) || !isfinite(high) || low > high || fabs(low) > 1e18 || fabs(high) > 1e18)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid bounds of range: %g, %g", low, high),
				 errhint("Write range(value, low, high) with finite low <= high, at most 1e18 in size.")));

	value = PG_ARGISNULL(0) ? low : PG_GETARG_FLOAT8(0);
	if (isnan(value) || value < low)
		value = low;
	else if (value > high)
		value = high;
	exact = DirectFunctionCall1(float8_numeric, Float8GetDatum(value));
	PG_RETURN_DATUM(DirectFunctionCall2(numeric_round, exact,
										Int32GetDatum(GridDecimals(low, high))));
}
