"""Errors that name files of a camera: for its owner as they are, for everybody else without the names."""

from __future__ import annotations

from typing import Any

from privid.errors import PrividError, VideoUnreadable
from privid.ledger import Ledger

__all__ = ["veiled"]


def veiled(error: PrividError, request: dict[str, Any], ledger: Ledger) -> PrividError:
    """What whoever asks may be told of it. Who alters a camera is its owner."""
    if not error.names_files:
        return error
    table = request.get("table")
    tables = [table] if isinstance(table, dict) else request.get("tables", [])
    role = table.get("owner") if isinstance(table, dict) else request.get("role")
    servers = {server["name"]: server["owner"] for server in (one.get("server", {}) for one in tables) if server}
    strange = [] if not servers else ledger.strange(str(role), servers)
    if not strange:
        return error
    named = ", ".join(f'"{name}"' for name in sorted(strange))
    return VideoUnreadable(f"footage of camera {named} cannot be read", detail="What is wrong with which file is for the camera's owner.",
                           hint="Ask the owner, whom the same statement tells more.")
