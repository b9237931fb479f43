/*
 * grants.c: who cannot give a camera away does not hold up whoever can.
 *
 * PostgreSQL writes the row of a foreign server, or of the database, for every GRANT and REVOKE on
 * it, also for one that grants nothing because its role has no grant option,
 * and for DROP OWNED of a role that has a right to it, which then goes on to wait
 * for whatever the role owns and has locked. Until that transaction ends, its
 * owner can neither revoke the right nor alter or drop the camera.
 */
#include "privid.h"

#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "utils/acl.h"

/* Refuse to go on with a camera that the role may not grant. */
static void
CheckServer(const char *name)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	if (server && IsPrividServer(server) &&
		!pg_foreign_server_aclmask(server->serverid, GetUserId(), ACL_GRANT_OPTION_FOR(ACL_USAGE), ACLMASK_ANY))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_SERVER, name);
}

/* The same for a database, whose row is written likewise, and which VACUUM writes, too. */
static void
CheckDatabase(const char *name)
{
	Oid			database = get_database_oid(name, true);

	if (OidIsValid(database) && !superuser() &&
		!pg_database_aclmask(database, GetUserId(), ACL_GRANT_OPTION_FOR(ACL_ALL_RIGHTS_DATABASE), ACLMASK_ANY))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_DATABASE, name);
}

/* Refuse a GRANT or REVOKE that would change nothing, but lock. */
static void
CheckGrant(GrantStmt *statement)
{
	ListCell   *lc;

	if (statement->targtype != ACL_TARGET_OBJECT)
		return;
	foreach(lc, statement->objects)
		if (statement->objtype == OBJECT_FOREIGN_SERVER)
			CheckServer(strVal(lfirst(lc)));
		else if (statement->objtype == OBJECT_DATABASE)
			CheckDatabase(strVal(lfirst(lc)));
}

/* Every utility statement passes here. */
void
CheckGrantStatement(Node *statement)
{
	if (IsA(statement, GrantStmt))
		CheckGrant((GrantStmt *) statement);
	else if (IsA(statement, DropOwnedStmt) && !superuser() && OidIsValid(get_foreign_data_wrapper_oid("privid", true)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to run DROP OWNED in a database with extension \"privid\""),
				 errdetail("It gives back rights to cameras, and would hold up their owners while it drops the rest."),
				 errhint("Drop what the role owns by name, or ask a superuser.")));
}
