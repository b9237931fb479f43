"""Files attached to executables, kept in PostgreSQL by content."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import cast

from privid.errors import ExecutableInvalid
from privid.ledger import Ledger
from privid.model import Executable

__all__ = ["Attachments"]


class Attachments:
    """Executables with the names and hashes of their files; a file's content is read when a job needs it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def executable(self, owner: str, name: str) -> Executable:
        """As uploaded, with its files; the hash covers them, so that another file is another executable."""
        found = self._ledger.executable(owner, name)
        with self._ledger.pool.connection() as connection:
            rows = connection.execute("SELECT name, sha256, octet_length(content) FROM privid.attachment_store"
                                      ' WHERE owner = %s::name AND executable = %s ORDER BY name COLLATE "C"', (owner, name)).fetchall()
        files = tuple((str(file), str(sha256)) for file, sha256, _ in rows)
        if not files:
            return found
        return replace(found, files=files, sizes=tuple(int(cast(int, size)) for _, _, size in rows), own=found.sha256,
                       sha256=hashlib.sha256(json.dumps([found.sha256, files]).encode()).hexdigest())

    def content(self, sha256: str) -> bytes:
        with self._ledger.pool.connection() as connection:
            row = connection.execute("SELECT content FROM privid.attachment_store WHERE sha256 || '' = %s LIMIT 1", (sha256,),
                                     binary=True).fetchone()
        if row is None:
            raise ExecutableInvalid("a file attached to the executable is gone", hint="Attach it again and repeat the query.")
        return bytes(cast(bytes, row[0]))
