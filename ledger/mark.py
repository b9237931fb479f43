"""A mark outside the database: which charges it must know. A database that was set back to an older state is found out by it."""

from __future__ import annotations

import json
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

from privid.closed import read_file, write_file
from privid.errors import EngineUnavailable

from .pool import Connection

__all__ = ["KEPT", "Mark"]

#: how many of the latest charges are kept. Charges commit in another order than they are numbered, and a dump may fall in between.
KEPT = 256


class Mark:
    """Safe to use from many threads of one process; one process at a time writes it. Without a path it marks nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._charges: dict[int, str] = {}
        if path is not None:
            self._charges = _read(path)

    @property
    def charges(self) -> dict[int, str]:
        with self._lock:
            return dict(self._charges)

    def check(self, conn: Connection) -> None:
        """Refuses to go on with a database that lacks a charge which was once committed."""
        missing = self.missing(conn)
        if missing:
            raise EngineUnavailable(
                f"ledger is older than it was: {len(missing)} of its latest {len(self.charges)} charges are missing",
                detail=f"Release {min(missing)} was charged and is not in the database, which must have been restored from an older state.",
                hint="Restore a newer state, or let the operator accept this one: privid ledger accept-restore.")

    def missing(self, conn: Connection) -> list[int]:
        """Charges that the mark has and the database has not."""
        charges = self.charges
        if not charges:
            return []
        rows = conn.execute("SELECT l.id, l.at FROM unnest(%s::int8[]) m(id) CROSS JOIN LATERAL "
                            "(SELECT l.id, l.at FROM privid.release_log l WHERE l.id = m.id OFFSET 0) l", (list(charges),)).fetchall()
        found = {row[0]: stamp(row[1]) for row in rows}
        return sorted(release for release, at in charges.items() if found.get(release) != at)

    def note(self, release: int, at: Any) -> None:
        """To be called once the charge is committed. A mark that lags behind is harmless: it asks for less."""
        if self._path is None:
            return
        with self._lock:
            self._charges[release] = stamp(at)
            for old in sorted(self._charges)[:-KEPT]:
                del self._charges[old]
            self._write()

    def reset(self) -> None:
        """Asks for nothing any more."""
        with self._lock:
            self._charges = {}
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(exist_ok=True)
        write_file(self._path, json.dumps({"charges": {str(release): at for release, at in self._charges.items()}}) + "\n")


def stamp(at: Any) -> str:
    """A moment as the mark writes it."""
    assert isinstance(at, datetime)
    return at.isoformat(timespec="microseconds")


def _read(path: Path) -> dict[int, str]:
    try:
        text = read_file(path)
        if not text:
            return {}
        return {int(release): str(at) for release, at in json.loads(text)["charges"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise EngineUnavailable(f'could not read "{path}": {error.strerror}', detail="It tells which charges the database must know.",
                                hint="It is a file of the user that the engine runs as: look what is there instead.") from None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise EngineUnavailable(f'file "{path}" is damaged', detail="It tells which charges the database must know.",
                                hint="Bring it back from a backup, or let the operator accept the database as it is: "
                                     "privid ledger accept-restore.") from error
