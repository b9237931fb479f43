/*
 * options.c: which options a camera and a table have, and what values they take.
 *
 * The engine reads the values again, exactly, and checks them against the
 * video; here a typing error is heard at once, with the place it belongs to.
 */
#include "privid.h"

#include <math.h>

#include "access/reloptions.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "catalog/pg_attribute.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(privid_fdw_validator);

typedef enum OptionKind
{
	OPTION_TEXT,
	OPTION_DURATION,			/* number and unit; may be negative if low < 0 */
	OPTION_NUMBER,
	OPTION_INTEGER,
	OPTION_TIMESTAMP,
	OPTION_BOOLEAN,
	OPTION_VISIBILITY
} OptionKind;

typedef struct Option
{
	const char *name;
	Oid			catalog;
	OptionKind	kind;
	double		low;			/* seconds for durations */
	double		high;			/* of a text: bytes */
	bool		required;
} Option;

/* bytes of a value that is a number, a duration, a moment or a truth value: none that is meant has more */
#define LONGEST_VALUE 100

#define DAY 86400.0
#define YEAR (366 * DAY)

static const Option options[] = {
	{"source", ForeignServerRelationId, OPTION_TEXT, 0, 4096, true},
	{"starts", ForeignServerRelationId, OPTION_TIMESTAMP, 0, 0, true},
	{"fps", ForeignServerRelationId, OPTION_NUMBER, 0.001, 1000, false},
	{"rho", ForeignServerRelationId, OPTION_DURATION, 0, YEAR, true},
	{"k", ForeignServerRelationId, OPTION_INTEGER, 0, 1000000, true},
	{"epsilon", ForeignServerRelationId, OPTION_NUMBER, 1e-6, 1e6, true},
	{"quantum", ForeignServerRelationId, OPTION_DURATION, 0.001, 10, false},
	{"warm", ForeignServerRelationId, OPTION_BOOLEAN, 0, 0, false},
	{"visibility", ForeignServerRelationId, OPTION_VISIBILITY, 0, 0, false},
	{"executable", ForeignTableRelationId, OPTION_TEXT, 0, 255, true},
	{"begin", ForeignTableRelationId, OPTION_TIMESTAMP, 0, 0, true},
	{"end", ForeignTableRelationId, OPTION_TIMESTAMP, 0, 0, true},
	{"chunk", ForeignTableRelationId, OPTION_DURATION, 0.000001, YEAR, true},
	{"stride", ForeignTableRelationId, OPTION_DURATION, -YEAR, YEAR, false},
	{"runtime", ForeignTableRelationId, OPTION_TEXT, 0, 255, false},
	{"timeout", ForeignTableRelationId, OPTION_DURATION, 0.002, DAY, true},
	{"max_rows", ForeignTableRelationId, OPTION_INTEGER, 1, 1000000, true},
	{"pad", ForeignTableRelationId, OPTION_BOOLEAN, 0, 0, false},
	{"mask", ForeignTableRelationId, OPTION_TEXT, 0, 255, false},
	{"regions", ForeignTableRelationId, OPTION_TEXT, 0, 255, false},
	{"low", AttributeRelationId, OPTION_NUMBER, -1e18, 1e18, false},
	{"high", AttributeRelationId, OPTION_NUMBER, -1e18, 1e18, false},
	{"keys", AttributeRelationId, OPTION_TEXT, 0, 262144, false},
};

/* What an object of a catalog is called. */
static const char *
CatalogName(Oid catalog)
{
	switch (catalog)
	{
		case ForeignDataWrapperRelationId:
			return "foreign-data wrapper";
		case ForeignServerRelationId:
			return "server";
		case ForeignTableRelationId:
			return "foreign table";
		case UserMappingRelationId:
			return "user mapping";
		case AttributeRelationId:
			return "column";
		default:
			return "object";
	}
}

/* Refuse a name that is not an option here: another level's, or the nearest one. */
static void
ReportUnknownOption(const char *name, Oid catalog)
{
	const char *closest = NULL;
	int			distance = 5;
	bool		any = false;

	for (int i = 0; i < lengthof(options); i++)
	{
		if (options[i].catalog != catalog)
		{
			if (strcmp(options[i].name, name) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
						 errmsg("option \"%s\" is not an option of a %s", name, CatalogName(catalog)),
						 errhint("It is an option of a %s.", CatalogName(options[i].catalog))));
			continue;
		}
		any = true;
		if (strlen(name) < 64)
		{
			int			d = varstr_levenshtein(name, strlen(name), options[i].name, strlen(options[i].name),
											   1, 1, 1, true);

			if (d < distance && d <= strlen(name) / 2)
			{
				distance = d;
				closest = options[i].name;
			}
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 !any ? errhint("There are no options of a %s.", CatalogName(catalog)) :
			 closest ? errhint("Perhaps you meant the option \"%s\".", closest) :
			 errhint("Options of a %s are listed in the reference.", CatalogName(catalog))));
}

/* Refuse a value that cannot be read. */
static void
ReportInvalidValue(const Option *option, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", option->name, value),
			 errhint("%s", hint)));
}

/* Refuse a value that is longer than any that is meant, before anything reads it. */
static void
CheckLength(const Option *option, const char *value)
{
	int			longest = option->kind == OPTION_TEXT ? (int) option->high : LONGEST_VALUE;
	int			length = (int) strlen(value);

	if (length > longest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("value of option \"%s\" has %d bytes, but at most %d are allowed", option->name, length, longest),
				 errhint("Write a shorter value.")));
}

/* Read a number, or a quotient of two whole numbers; *rest is what follows it. */
static bool
ReadNumber(const char *value, double *result, const char **rest)
{
	char	   *end;
	double		number;

	while (*value == ' ')
		value++;
	if (strspn(value, "+-0123456789") == 0)
		return false;
	number = strtod(value, &end);
	if (end == value || !isfinite(number))
		return false;
	if (*end == '/')
	{
		char	   *after;
		double		divisor = strtod(end + 1, &after);

		if (after == end + 1 || !(divisor > 0) || !isfinite(divisor))
			return false;
		number /= divisor;
		end = after;
	}
	while (*end == ' ')
		end++;
	*result = number;
	*rest = end;
	return true;
}

/* The seconds of a unit of time. */
static bool
ReadUnit(const char *unit, double *factor)
{
	static const struct
	{
		const char *name;
		double		seconds;
	}			units[] = {
		{"", 1}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"sec", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", DAY}
	};

	for (int i = 0; i < lengthof(units); i++)
		if (strcmp(units[i].name, unit) == 0)
		{
			*factor = units[i].seconds;
			return true;
		}
	return false;
}

/* Check one value by the kind and bounds of its option. */
static void
CheckValue(const Option *option, DefElem *def)
{
	char	   *value = defGetString(def);
	const char *rest = "";
	double		number = 0,
				factor = 1;
	bool		ignored;

	CheckLength(option, value);
	switch (option->kind)
	{
		case OPTION_TEXT:
			if (*value == '\0')
				ReportInvalidValue(option, value, "The value must not be empty.");
			return;
		case OPTION_BOOLEAN:
			if (!parse_bool(value, &ignored))
				ReportInvalidValue(option, value, "Write on or off.");
			return;
		case OPTION_VISIBILITY:
			if (strcmp(value, "open") != 0 && strcmp(value, "own") != 0)
				ReportInvalidValue(option, value,
								   "Write open, or own if an analyst is to see nothing of what others did.");
			return;
		case OPTION_TIMESTAMP:
			{
				/* a time zone is needed, or the window would move with the session */
				const char *colon = strchr(value, ':');

				if (strlen(value) < 10 || (!colon && !strchr(value, 'Z')) ||
					strpbrk(colon ? colon : value, "+-Z") == NULL)
					ReportInvalidValue(option, value,
									   "Write a timestamp with its time zone, for example 2026-03-01 06:00+00.");
				DirectFunctionCall3(timestamptz_in, CStringGetDatum(value),
									ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
				return;
			}
		case OPTION_DURATION:
			if (!ReadNumber(value, &number, &rest) || !ReadUnit(rest, &factor))
				ReportInvalidValue(option, value,
								   "Write a duration as a number and a unit: us, ms, s, min, h or d, for example 5s.");
			number *= factor;
			break;
		case OPTION_NUMBER:
			if (!ReadNumber(value, &number, &rest) || *rest != '\0')
				ReportInvalidValue(option, value, "Write a number, for example 0.5.");
			break;
		case OPTION_INTEGER:
			if (!ReadNumber(value, &number, &rest) || *rest != '\0' || number != floor(number) ||
				strspn(value, " +-0123456789") != strlen(value))
				ReportInvalidValue(option, value, "Write a whole number.");
			break;
	}
	if (number < option->low || number > option->high)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("value %s of option \"%s\" is out of bounds", value, option->name),
				 errdetail("It must lie between %g and %g%s.", option->low, option->high,
						   option->kind == OPTION_DURATION ? " seconds" : "")));
}

/* The option list of an object, as CREATE or ALTER would leave it. */
Datum
privid_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *given = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	bool		seen[lengthof(options)] = {false};
	ListCell   *lc;

	CheckPreloaded();
	foreach(lc, given)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		int			i;

		for (i = 0; i < lengthof(options); i++)
			if (options[i].catalog == catalog && strcmp(options[i].name, def->defname) == 0)
				break;
		if (i == lengthof(options))
			ReportUnknownOption(def->defname, catalog);
		CheckValue(&options[i], def);
		seen[i] = true;
	}
	for (int i = 0; i < lengthof(options); i++)
		if (options[i].catalog == catalog && options[i].required && !seen[i])
			ereport(ERROR,
					(errcode(ERRCODE_FDW_DYNAMIC_PARAMETER_VALUE_NEEDED),
					 errmsg("option \"%s\" is required for a %s", options[i].name, CatalogName(catalog))));
	PG_RETURN_VOID();
}
