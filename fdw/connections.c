/*
 * connections.c: nobody takes all of the server's sessions.
 *
 * PostgreSQL gives a session to whoever may log in, until none is left: then
 * nobody else is answered, and the engine cannot charge. So the last ones are
 * kept for the engine (and superusers, for whom PostgreSQL keeps some, too), and
 * a role of privid's never has more sessions than are left for all others.
 */
#include "privid.h"

/* its headers are needed for what is not used here, and take the same place without */
#undef ENABLE_GSS
#include "libpq/auth.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "replication/walsender.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"

/* what the engine has open at most, and as much again for one that starts beside it */
#define KEPT_SESSIONS 16

static ClientAuthentication_hook_type previous_hook = NULL;

/* Whether a role has the rights of one that the extension made, and is no superuser. */
static bool
IsOf(Oid role, const char *group)
{
	Oid			oid = get_role_oid(group, true);

	return OidIsValid(oid) && is_member_of_role_nosuper(role, oid);
}

/* Refuse a session that would leave too few to others, once it is known whose it is. */
static void
CheckSessions(Port *port, int status)
{
	Oid			role;
	int			sessions;

	if (previous_hook)
		previous_hook(port, status);
	if (status != STATUS_OK || am_walsender)
		return;
	role = get_role_oid(port->user_name, true);
	if (!OidIsValid(role) || superuser_arg(role) || IsOf(role, "privid_engine"))
		return;
	if (!HaveNFreeProcs(ReservedBackends + KEPT_SESSIONS))
		ereport(FATAL,
				(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
				 errmsg("remaining sessions are reserved for the engine of privid and for superusers"),
				 errhint("Close sessions that are not in use, or raise max_connections.")));
	sessions = CountUserBackends(role);
	if ((IsOf(role, "privid_analyst") || IsOf(role, "privid_owner")) &&
		!HaveNFreeProcs(ReservedBackends + KEPT_SESSIONS + sessions))
		ereport(FATAL,
				(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
				 errmsg("too many sessions of role \"%s\"", port->user_name),
				 errdetail("It has %d, and fewer are left for all others.", sessions),
				 errhint("Close sessions that are not in use, or raise max_connections.")));
}

/* From now on each session is looked at when it has logged in. */
void
InstallSessionHook(void)
{
	previous_hook = ClientAuthentication_hook;
	ClientAuthentication_hook = CheckSessions;
}
