"""What a request says of roles and cameras, compared with the catalog as the engine sees it.

A backend hears of changes when it looks, and whoever writes its statements can keep it from looking. So policies, owners and rights are
believed only where what is committed says the same: when a request comes, and again in the transaction that charges it.
"""

from __future__ import annotations

from typing import Any, LiteralString, NamedTuple

from privid.errors import OutOfDate, PermissionDenied
from privid.ledger import Connection

from .folders import confirm_folder
from .wire import Malformed

__all__ = ["Stated", "is_committed"]

_ROLE = "SELECT rolname::text FROM pg_roles WHERE oid = %s::oid"
#: all of them as they are at one moment
_CAMERAS = """
    SELECT s.oid::int8, s.srvname::text, pg_get_userbyid(s.srvowner)::text,
           (SELECT coalesce(jsonb_object_agg(o.option_name, o.option_value), '{}') FROM pg_options_to_table(s.srvoptions) o)
    FROM pg_foreign_server s WHERE s.oid = ANY (%s::oid[])"""
_MAY_USE = "SELECT has_server_privilege(%s::oid, %s::oid, 'USAGE')"
_IS_OWNER = """
    SELECT r.rolsuper OR pg_has_role(r.oid, s.srvowner, 'USAGE')
    FROM pg_roles r, pg_foreign_server s WHERE r.oid = %s::oid AND s.oid = %s::oid"""


class _Server(NamedTuple):
    oid: int
    name: str
    owner: str
    options: dict[str, Any]


class Stated:
    """What one request says. It speaks of a camera with each table; whatever it says anywhere must be so."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._role = (_number(request, "role_oid"), request.get("role"))
        self._servers = [_server(table) for table in _objects(request, "tables")]
        self._readers = {(_number(reader, "role"), _number(reader, "server")) for reader in _objects(request, "readers")}
        if {server for _, server in self._readers} != {server.oid for server in self._servers}:
            raise Malformed("readers are not those of the tables")

    def confirm(self, conn: Connection, *, raw: bool = False) -> None:
        """Refuses what is not so, or not any more. Who asks needs the right to use every camera, and so does everybody in whose name one is
        read: views lend the rights of their owners, but a camera's budget is lent by its owner alone. `raw`: who reads must be the
        owners."""
        if _one(conn, _ROLE, self._role[0]) != (self._role[1],):
            raise _out_of_date(f'role "{self._role[1]}"')
        rows = conn.execute(_CAMERAS, ([server.oid for server in self._servers],)).fetchall()
        committed = {row[0]: row for row in rows}
        for server in self._servers:
            if committed.get(server.oid) != server:
                raise _out_of_date(f'camera "{server.name}"')
            confirm_folder(conn, server.name, server.owner, server.options.get("source", ""))
        asked = self._readers if raw else self._readers | {(self._role[0], server.oid) for server in self._servers}
        for role, oid in sorted(asked):
            if _one(conn, _IS_OWNER if raw else _MAY_USE, role, oid) != (True,):
                raise PermissionDenied(f"permission denied for foreign server {committed[oid][1]}")


def is_committed(conn: Connection, server: dict[str, Any]) -> bool:
    """Whether the catalog, as everybody sees it, has a camera as a request says."""
    said = _server({"server": server})
    return [said] == conn.execute(_CAMERAS, ([said.oid],)).fetchall()


def _out_of_date(what: str) -> OutOfDate:
    return OutOfDate(f"{what} is not what this session takes it for",
                     detail="It was changed after this transaction looked at it, or by this transaction, which has not been committed.",
                     hint="Commit or roll back, and ask again.")


def _server(table: dict[str, Any]) -> _Server:
    server = table.get("server")
    if not isinstance(server, dict) or not isinstance(server.get("options"), dict):
        raise Malformed("table without a server")
    return _Server(_number(server, "oid"), server.get("name", ""), server.get("owner", ""), server["options"])


def _objects(request: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = request.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Malformed(f"request without {name}")
    return found


def _number(within: dict[str, Any], name: str) -> int:
    value = within.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 32:
        raise Malformed(f"{name} is not the number of an object")
    return value


def _one(conn: Connection, statement: LiteralString, *parameters: int) -> tuple[object, ...] | None:
    return conn.execute(statement, parameters).fetchone()
