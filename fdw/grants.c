/*
 * grants.c: who cannot give a camera away does not hold up whoever can.
 *
 * PostgreSQL writes the row of a foreign server for every GRANT and REVOKE on
 * it, also for one that grants nothing because its role has no grant option,
 * and for DROP OWNED of a role that has a right to it, which then goes on to wait
 * for whatever the role owns and has locked. Until that transaction ends, its
 * owner can neither revoke the right nor alter or drop the camera.
 */
#include "privid.h"

#include "commands/defrem.h"
#include "miscadmin.h"
#include "utils/acl.h"

/* Refuse a GRANT or REVOKE that would change nothing, but lock. */
static void
CheckGrant(GrantStmt *statement)
{
	ListCell   *lc;

	if (statement->objtype != OBJECT_FOREIGN_SERVER || statement->targtype != ACL_TARGET_OBJECT)
		return;
	foreach(lc, statement->objects)
	{
		ForeignServer *server = GetForeignServerByName(strVal(lfirst(lc)), true);

		if (server && IsPrividServer(server) &&
			!pg_foreign_server_aclmask(server->serverid, GetUserId(), ACL_GRANT_OPTION_FOR(ACL_USAGE), ACLMASK_ANY))
			aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_SERVER, server->servername);
	}
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
