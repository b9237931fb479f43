"""Runs statements with the rights of another role, and without a way back to those of the superuser.

SET ROLE and SET SESSION AUTHORIZATION alone are no such thing: code that runs after them can say
RESET. PostgreSQL closes that way where it runs code of users by itself, in what it calls a
security-restricted operation: there nobody can change the role, and nothing can be put off until
the role is another one (deferred triggers, cursors with hold, prepared statements). One such
operation can be had in SQL: REFRESH of a materialized view, which runs the view's query as its
owner. The query of ours calls a function that executes what it finds in a table.
"""

from __future__ import annotations

from psycopg import sql

from .target import Connection

__all__ = ["Confined"]

_PREPARE = b"""
CREATE SCHEMA privid_restore;
GRANT USAGE ON SCHEMA privid_restore TO PUBLIC;
CREATE TABLE privid_restore.work (statement text NOT NULL);
GRANT SELECT ON privid_restore.work TO PUBLIC;
CREATE FUNCTION privid_restore.run() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  EXECUTE (SELECT w.statement FROM privid_restore.work w);
  RETURN true;
END
$$;
"""


class Confined:
    """A transaction of a superuser in which others' statements are run with their own rights."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._views: dict[str, sql.Identifier] = {}
        connection.execute(_PREPARE)

    def run(self, owner: str, statement: str) -> None:
        """Runs statements of a role, in which nothing is hidden from it: it may read them."""
        view, execute = self._view(owner), self._connection.execute
        execute("DELETE FROM privid_restore.work")
        execute("INSERT INTO privid_restore.work VALUES (%s)", (statement,))
        # by which session_user is the owner, too
        execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(owner)))
        execute(sql.SQL("REFRESH MATERIALIZED VIEW {}").format(view))
        execute("RESET SESSION AUTHORIZATION")

    def quote(self, value: str | None) -> str:
        """A value in such a statement, to be read alike whatever the role's settings are."""
        return sql.Literal(value).as_string(self._connection)

    def close(self) -> None:
        self._connection.execute("DROP SCHEMA privid_restore CASCADE")

    def _view(self, owner: str) -> sql.Identifier:
        if owner not in self._views:
            view = sql.Identifier("privid_restore", f"run_{len(self._views)}")
            self._connection.execute(sql.SQL("CREATE MATERIALIZED VIEW {} AS SELECT privid_restore.run() WITH NO DATA").format(view))
            self._connection.execute(sql.SQL("ALTER MATERIALIZED VIEW {} OWNER TO {}").format(view, sql.Identifier(owner)))
            self._views[owner] = view
        return self._views[owner]
