/*
 * roles.c: the engine's role cannot be had by those who create roles.
 *
 * Members of privid_engine write the ledger. PostgreSQL 15 lets whoever has
 * CREATEROLE grant any role that is no superuser, itself included, and set its
 * password. No event trigger fires for roles, so every utility statement that
 * would give, alter or drop the role, or one that is a member of it, is looked
 * at here: it is for superusers.
 */
#include "privid.h"

#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"

/* Refuse whoever is no superuser to touch the engine's role, or one that has its rights. */
static void
CheckRole(Oid role, const char *name)
{
	Oid			engine = get_role_oid("privid_engine", true);

	if (!superuser() && OidIsValid(engine) && OidIsValid(role) && is_member_of_role_nosuper(role, engine))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to grant or alter role \"%s\"", name),
				 errdetail("It has the rights of role \"privid_engine\", whose members write the ledger.")));
}

/* The same for roles as a statement names them. */
static void
CheckRoles(List *roles)
{
	ListCell   *lc;

	foreach(lc, roles)
	{
		RoleSpec   *spec = lfirst(lc);
		const char *name = IsA(spec, AccessPriv) ? ((AccessPriv *) spec)->priv_name :
			spec->roletype == ROLESPEC_CSTRING ? spec->rolename : NULL;

		if (name != NULL)
			CheckRole(get_role_oid(name, true), name);
	}
}

/* Every utility statement passes here, also one that ends a failed transaction, in which no catalog can be read. */
void
CheckRoleStatement(Node *statement)
{
	ListCell   *lc;

	switch (nodeTag(statement))
	{
		case T_GrantRoleStmt:
			CheckRoles(((GrantRoleStmt *) statement)->granted_roles);
			break;
		case T_CreateRoleStmt:
			foreach(lc, ((CreateRoleStmt *) statement)->options)
				if (strcmp(lfirst_node(DefElem, lc)->defname, "addroleto") == 0)
					CheckRoles((List *) lfirst_node(DefElem, lc)->arg);
			break;
		case T_AlterRoleStmt:
			CheckRoles(list_make1(((AlterRoleStmt *) statement)->role));
			break;
		case T_AlterRoleSetStmt:
			if (((AlterRoleSetStmt *) statement)->role != NULL)
				CheckRoles(list_make1(((AlterRoleSetStmt *) statement)->role));
			break;
		case T_DropRoleStmt:
			CheckRoles(((DropRoleStmt *) statement)->roles);
			break;
		case T_RenameStmt:
			if (((RenameStmt *) statement)->renameType == OBJECT_ROLE)
				CheckRole(get_role_oid(((RenameStmt *) statement)->subname, true), ((RenameStmt *) statement)->subname);
			break;
		default:
			break;
	}
}
