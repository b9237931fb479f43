"""What a check of privid doctor says."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and what to do about it."""

    level: str  # PASS, CAUTION, FAIL
    subject: str
    detail: str
    remedy: str | None = None
