/*
 * home.c: an analyst's first foreign table finds a schema to live in.
 *
 * Analysts may not create in schema public: what one puts there, another role
 * could run by accident. So each has a schema of his own name, which is first
 * in the default search_path. It is made when it is first needed, for members
 * of privid_analyst only, and only where they could create nothing otherwise.
 * The hook that sees to it also notes which utility statement is the client's;
 * another, whether a statement runs inside of one. What a refresh of a
 * materialized view may not do is in refresh.c.
 */
#include "privid.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"

static ProcessUtility_hook_type previous_utility = NULL;
static Node *client_utility = NULL;
static ExecutorRun_hook_type previous_run = NULL;
static int	running = 0;
static int	refreshing = 0;

/* Would an unqualified name have no schema that this role may create in? */
static bool
NeedsHome(CreateForeignTableStmt *stmt)
{
	Oid			analysts = get_role_oid("privid_analyst", true);
	ForeignServer *server = GetForeignServerByName(stmt->servername, true);
	List	   *path;
	ListCell   *lc;

	if (stmt->base.relation->schemaname || stmt->base.relation->relpersistence != RELPERSISTENCE_PERMANENT ||
		!IsTransactionState() || server == NULL || !IsPrividServer(server) || !OidIsValid(analysts) || superuser() ||
		!is_member_of_role_nosuper(GetUserId(), analysts))
		return false;
	path = fetch_search_path(false);
	foreach(lc, path)
		if (pg_namespace_aclcheck(lfirst_oid(lc), GetUserId(), ACL_CREATE) == ACLCHECK_OK)
			return false;
	return !OidIsValid(get_namespace_oid(GetUserNameFromId(GetUserId(), false), true));
}

/* CREATE SCHEMA, with the rights that the analyst lacks. */
static void
MakeHome(void)
{
	char	   *name = GetUserNameFromId(GetUserId(), false);
	const char *quoted = quote_identifier(name);
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	if (SPI_execute(psprintf("CREATE SCHEMA %s AUTHORIZATION %s", quoted, quoted), false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create schema");
	SPI_finish();
	SetUserIdAndSecContext(user, context);
	ereport(NOTICE, (errmsg("schema \"%s\" was created for your tables", name)));
}

/* The utility statement of the client's own that is being carried out, or NULL. */
Node *
ClientUtility(void)
{
	return client_utility;
}

/* Every utility statement passes here. What runs inside of one is not the client's. */
static void
PrividUtility(PlannedStmt *pstmt, const char *source, bool readOnlyTree, ProcessUtilityContext context,
			  ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *statement = pstmt->utilityStmt;
	Node	   *outer = client_utility;
	const bool	refresh = IsA(statement, RefreshMatViewStmt);

	CheckRoleStatement(statement);
	CheckLocks(statement);
	CheckGrantStatement(statement);
	if (refreshing > 0)
		RefuseDefinition(statement);
	if (IsA(statement, CreateForeignTableStmt) && NeedsHome((CreateForeignTableStmt *) statement))
		MakeHome();
	if (refresh)
		refreshing++;
	client_utility = context == PROCESS_UTILITY_TOPLEVEL || IsClientAtWork() ? statement : NULL;
	PG_TRY();
	{
		if (previous_utility)
			previous_utility(pstmt, source, readOnlyTree, context, params, env, dest, qc);
		else
			standard_ProcessUtility(pstmt, source, readOnlyTree, context, params, env, dest, qc);
	}
	PG_FINALLY();
	{
		client_utility = outer;
		if (refresh)
			refreshing--;
	}
	PG_END_TRY();
}

/* Does what runs now run inside of another statement: in a function, or a portal that one fetches from? */
bool
RunsInside(void)
{
	return running > 1;
}

/* Every plan that is executed passes here. */
static void
PrividRun(QueryDesc *desc, ScanDirection direction, uint64 count, bool once)
{
	running++;
	PG_TRY();
	{
		if (previous_run)
			previous_run(desc, direction, count, once);
		else
			standard_ExecutorRun(desc, direction, count, once);
	}
	PG_FINALLY();
	{
		running--;
	}
	PG_END_TRY();
}

/* Called once, when the library is preloaded. */
void
InstallUtilityHook(void)
{
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = PrividRun;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = PrividUtility;
}
