"""Folders below the video root in which the sources of an owner's cameras may lie, as PostgreSQL keeps them."""

from __future__ import annotations

from privid.errors import PermissionDenied
from privid.ledger import Connection, Ledger

__all__ = ["Folders", "confirm_folder"]


class Folders:
    """Looked up each time: what is revoked is gone with the next statement."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def check(self, camera: str, owner: str, source: str) -> None:
        """Refuses a source that lies in no folder of the camera's owner."""
        with self._ledger.pool.connection() as conn:
            confirm_folder(conn, camera, owner, source)


def confirm_folder(conn: Connection, camera: str, owner: str, source: str) -> None:
    """The same as a transaction sees it. What would leave the video root is refused when it is opened, whosever it is."""
    if conn.execute("SELECT privid.path_parts(%s) IS NULL OR privid.in_folder(%s, %s)", (source, owner, source)).fetchone() != (True,):
        # an analyst may hear it, who is not told the path
        raise PermissionDenied(f'source of camera "{camera}" does not lie in a folder of its owner, role "{owner}"',
                               hint="The view privid.folders shows the owner its folders; a superuser grants one with privid.grant_folder.")
