"""Errors as PostgreSQL reports them: SQLSTATE, message, detail, hint, position.

Every family of refusals has one class here and one row in docs/errors.md.
Class PV is ours; where the SQL standard or PostgreSQL already has a code, that code is used.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "BudgetExhausted",
    "EngineUnavailable",
    "ExecutableInvalid",
    "InvalidValue",
    "NoRule",
    "OutOfDate",
    "PermissionDenied",
    "PrividError",
    "QuotaExceeded",
    "RawRows",
    "SandboxFailed",
    "VersionMismatch",
    "VideoUnreadable",
    "WindowInvalid",
    "families",
]


class PrividError(Exception):
    """What a client sees. Messages follow PostgreSQL's style: lower case, no period, one line."""

    sqlstate: ClassVar[str] = "PV000"
    #: whether it names files of a camera, which are for the camera's owner alone
    names_files: bool = False

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None,
                 position: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        #: byte offset of the offending expression in the statement (a node's "loc"), or None
        self.position = position

    def as_message(self) -> dict[str, Any]:
        """The body of an 'E' message."""
        return {"sqlstate": self.sqlstate, "message": self.message, "detail": self.detail,
                "hint": self.hint, "position": self.position}


class RawRows(PrividError):
    """The statement would show rows or values that are not a release."""

    sqlstate = "PV001"


class NoRule(PrividError):
    """The calculus has no rule for this form, so no bound is known."""

    sqlstate = "PV002"


class BudgetExhausted(PrividError):
    """Some frame has less budget left than the release asks for."""

    sqlstate = "PV003"


class EngineUnavailable(PrividError):
    """The engine cannot be reached, or lost its own connection to PostgreSQL."""

    sqlstate = "PV004"


class VersionMismatch(PrividError):
    """Library, extension script and engine are not of one version, or the library is not preloaded."""

    sqlstate = "PV006"


class VideoUnreadable(PrividError):
    """A camera's source is missing, broken, truncated, or of variable frame rate."""

    sqlstate = "PV007"
    names_files = True


class ExecutableInvalid(PrividError):
    """The named executable is missing or is not a program."""

    sqlstate = "PV008"


class WindowInvalid(PrividError):
    """Window, chunk or stride do not fit the recording."""

    sqlstate = "PV009"


class SandboxFailed(PrividError):
    """The sandbox itself (not the program in it) failed."""

    sqlstate = "PV010"


class InvalidValue(PrividError):
    """An option, setting or argument has a value that cannot be used."""

    sqlstate = "22023"


class OutOfDate(PrividError):
    """What the session takes a camera or a role for is not what the catalog says."""

    sqlstate = "40001"


class PermissionDenied(PrividError):
    """The role may not do this."""

    sqlstate = "42501"


class QuotaExceeded(PrividError):
    """The role would have more than its quota."""

    sqlstate = "53400"


def families() -> dict[str, type[PrividError]]:
    """All families by SQLSTATE (docs/errors.md is checked against this)."""
    return {cls.sqlstate: cls for cls in PrividError.__subclasses__()}
