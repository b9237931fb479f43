/*
 * grants.c: who cannot give a camera away does not hold up whoever can.
 *
 * PostgreSQL writes the row of a foreign server for every GRANT and REVOKE on
 * it, also for one that grants nothing because its role has no grant option,
 * and for DROP OWNED of a role that has a right to it. Until that transaction
 * ends, its owner can neither revoke the right nor alter or drop the camera.
 */
#include "privid.h"

#include "access/xact.h"
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

/* Every utility statement passes here; `top`: the client itself sent it. */
void
CheckGrantStatement(Node *statement, bool top)
{
	if (IsA(statement, GrantStmt))
		CheckGrant((GrantStmt *) statement);
	else if (IsA(statement, DropOwnedStmt) && !superuser() && OidIsValid(get_foreign_data_wrapper_oid("privid", true)))
		PreventInTransactionBlock(top, "DROP OWNED");
}
