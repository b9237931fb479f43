"""What the engine hands to the ledger and gets back: claims, releases, stored answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from privid.model import Camera, Key, Output, Span

from .steps import Use

__all__ = ["Claim", "Quota", "ReleaseRecord", "StoredAnswer", "outputs_as_json"]


@dataclass(frozen=True)
class Claim:
    """What a release reads of one camera, and the epsilon it consumes there. Claims on the same footage add up."""

    camera: Camera
    spans: Sequence[Span]  # frames read, numbered as the camera does, without the margin
    epsilon: Fraction
    #: the chunks of each table over the camera, when the release is linear: then it is charged by the exact rule
    uses: Sequence[Use] = field(default=())
    #: the masks and regions that it is read through, in words
    scenes: Sequence[str] = ()


@dataclass(frozen=True)
class ReleaseRecord:
    """What the log keeps of a release."""

    role: str
    query: str
    canonical: str
    key: str  # SHA-256 of all that makes two releases identical
    epsilon: Fraction
    mechanism: str
    outputs: Sequence[Output] = field(default=())


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that has already been released and may be given again."""

    release: int
    at: datetime
    rows: list[Key]


@dataclass(frozen=True)
class Quota:
    """What a role may have of the engine."""

    kept_bytes: int  # of rows that are kept, by the most that they could take
    jobs: int  # releases and raw reads at a time
    slots: int  # that these have together
    slot_seconds: int  # that one of them lasts at most
    compute_seconds: int  # that slow computations of them last together


def outputs_as_json(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """Exact numbers as text: a JSON number would be rounded by half of its readers."""
    return [{"label": o.label, "type": o.type, "step": str(o.step), "sensitivity": str(o.sensitivity), "scale": str(o.scale),
             "epsilon": str(o.epsilon), "error95": str(o.error95)} for o in outputs]
