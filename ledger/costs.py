"""From a claim to debits: the positions that are charged, and how much at each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from privid.model import Camera, Span

from .account import Debit, positions
from .amounts import as_numeric, in_recording_unit
from .recordings import Recording
from .steps import Step, Use, evenly, logged_steps, shares

__all__ = ["brief_steps", "debits", "full_charge", "limit", "logged_steps", "steps"]


def steps(camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    """Which share of its epsilon a release costs at which positions of the recording (PROOF.md): exactly where its chunks are told and
    it is linear, otherwise all of it wherever a segment meets what it reads."""
    if not camera.r or not spans:
        return []
    exact = shares(uses, recording.shift, recording.r_star) if uses else None
    return exact if exact is not None else evenly(positions(recording.spans(spans), recording.r_star))


def brief_steps(camera: Camera, recording: Recording, spans: Sequence[Span], uses: Sequence[Use]) -> list[Step]:
    """The same rounded up to few pieces."""
    if not camera.r or not spans:
        return []
    exact = shares(uses, recording.shift, recording.r_star, at_most=100) if uses else None
    return exact if exact is not None else evenly(positions(recording.spans(spans), recording.r_star))


def debits(shared: Sequence[Step], charge: Fraction) -> list[Debit]:
    """The same as amounts; what has no decimal form is rounded up."""
    amount = cache(lambda share: as_numeric(charge * share, up=True))
    return [(lo, hi, amount(share)) for lo, hi, share in shared]


def full_charge(epsilon: Fraction, camera: Camera, recording: Recording) -> str:
    """What is charged where a segment meets as many chunks as any."""
    return as_numeric(in_recording_unit(epsilon, camera.k, recording.k), up=True)


def limit(epsilon: Fraction, camera: Camera, recording: Recording) -> Fraction:
    """What may be spent at every position, in the recording's unit, rounded down where it has no exact form."""
    return Fraction(as_numeric(in_recording_unit(epsilon, camera.k, recording.k), up=False))
