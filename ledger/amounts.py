"""Epsilon in the ledger: exact decimals in the recording's unit of account."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["DECIMALS", "as_numeric", "as_text", "in_camera_unit", "in_recording_unit", "show"]

#: decimals that are kept of a number which has no shorter exact decimal form
DECIMALS = 30


def as_numeric(value: Fraction, *, up: bool) -> str:
    """The text of a numeric: exact within 30 decimals, else rounded in the given direction (up for charges, down for limits).

    >>> as_numeric(Fraction(1, 8), up=True)
    '125e-3'
    >>> as_numeric(Fraction(1, 3), up=False)[-3:], as_numeric(Fraction(1, 3), up=True)[-5:]
    ('-30', '4e-30')
    """
    for decimals in range(DECIMALS):
        scaled = value * 10**decimals
        if scaled.denominator == 1:
            return f"{scaled.numerator}e-{decimals}"
    scaled = value * 10**DECIMALS
    whole = -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator
    return f"{whole}e-{DECIMALS}"


def as_text(value: Fraction) -> str:
    """A decimal number for other programs, rounded up after 18 decimals.

    >>> as_text(Fraction(1, 2)), as_text(Fraction(1, 3))
    ('0.5', '0.333333333333333334')
    """
    whole, rest = divmod(-(-value.numerator * 10**18 // value.denominator), 10**18)
    return f"{whole}.{rest:018d}".rstrip("0").rstrip(".")


def in_recording_unit(epsilon: Fraction, camera_k: int, recording_k: int) -> Fraction:
    """What an epsilon of a camera with its K means to one segment, counted in the recording's K (ledger/PROOF.md)."""
    return epsilon * recording_k / camera_k


def in_camera_unit(amount: Fraction, camera_k: int, recording_k: int) -> Fraction:
    """The way back."""
    return amount * camera_k / recording_k


def show(epsilon: Fraction) -> str:
    """Epsilon for people: exact when it has at most nine decimals, else cut (never rounded up).

    >>> show(Fraction(1, 4)), show(Fraction(2, 3))
    ('0.25', '0.666666666')
    """
    whole, rest = divmod(epsilon.numerator * 10**9 // epsilon.denominator, 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
