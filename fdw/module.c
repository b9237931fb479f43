/*
 * module.c: loading, settings, and the refusal to work when not preloaded.
 */
#include "privid.h"

#include <math.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

double		privid_epsilon = 0.1;
bool		privid_reuse = true;
bool		privid_raw = false;
int			privid_allowance = 10000;
char	   *privid_socket = NULL;
static bool preloaded = false;

void		_PG_init(void);

PG_FUNCTION_INFO_V1(privid_library_version);

/*
 * Only roles that may own a camera can ask for raw rows, and only themselves, not
 * by code that runs in their name. Whether a role may see those of a given camera
 * is decided again at each use (raw.c); this check is here so that an analyst
 * hears no early.
 */
static bool
CheckRaw(bool *newval, void **extra, GucSource source)
{
	Oid			owners;
	bool		sent = ClientUtility() && (IsA(ClientUtility(), VariableSetStmt) || source == PGC_S_TEST);

	if (*newval && source >= PGC_S_TEST && !(sent && IsClientAtWork()) && !InitializingParallelWorker)
	{
		GUC_check_errcode(ERRCODE_INSUFFICIENT_PRIVILEGE);
		GUC_check_errmsg("parameter \"privid.raw\" cannot be switched on by code");
		GUC_check_errhint("The client itself must send SET privid.raw = on to see raw rows.");
		return false;
	}
	if (!*newval || !IsTransactionState() || superuser())
		return true;
	owners = get_role_oid("privid_owner", true);
	if (OidIsValid(owners) && has_privs_of_role(GetUserId(), owners))
		return true;
	GUC_check_errcode(ERRCODE_INSUFFICIENT_PRIVILEGE);
	GUC_check_errmsg("permission denied to set parameter \"privid.raw\"");
	GUC_check_errhint("Only the owner of a camera can see its raw rows.");
	return false;
}

/*
 * Define the settings. The planner hook is installed only when every backend
 * will have it: a library loaded later would leave earlier plans unguarded.
 */
void
_PG_init(void)
{
	DefineCustomRealVariable("privid.epsilon",
							 "What each release may consume of a camera's budget.",
							 NULL, &privid_epsilon, 0.1, 1e-6, 1e6,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("privid.reuse",
							 "Answers an identical release again from the log, free of charge.",
							 NULL, &privid_reuse, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("privid.raw",
							 "Shows raw rows to the owner of a camera.",
							 NULL, &privid_raw, false,
							 PGC_USERSET, GUC_NOT_IN_SAMPLE, CheckRaw, NULL, NULL);
	DefineCustomIntVariable("privid.allowance",
							"The longest that an answer may wait for its computation.",
							"A release that could take longer, by public sizes, is refused.",
							&privid_allowance, 10000, 1, 24 * 60 * 60 * 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomStringVariable("privid.socket",
							   "The Unix socket of the engine.",
							   NULL, &privid_socket, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	MarkGUCPrefixReserved("privid");

	if (!process_shared_preload_libraries_in_progress)
		return;
	preloaded = true;
	InstallPlannerHook();
	InstallReleaseScan();
	InstallUtilityHook();
	InstallSessionHook();
}

/* Refuse to go on in a server that would not guard every statement. */
void
CheckPreloaded(void)
{
	if (!preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_PRIVID_NOT_PRELOADED),
				 errmsg("library \"privid\" is not preloaded"),
				 errdetail("Without it, statements over cameras would run unprotected."),
				 errhint("Add privid to shared_preload_libraries and restart the server.")));
}

/* SQL: privid.library_version() */
Datum
privid_library_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(PRIVID_VERSION));
}
