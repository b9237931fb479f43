"""What the rules know of a relation, and how they say so.

A certificate holds for any two videos that differ in ONE segment (calculus: Lemma 1); the number of segments enters with the noise.
It speaks of one camera at a time: a segment of camera C changes only rows that come from C, so each camera has numbers of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias, assert_never

from privid.model import Camera, Key, TableUse

from .tree import Expr, FromPublic, JoinKind

__all__ = ["AnyRelation", "Bound", "Cells", "Certificate", "Change", "Derivation", "Extreme", "Facts", "Interval", "Joined", "Keyed",
           "Kind", "Leaf", "Listed", "Motion", "Place", "Relation", "Rows", "step"]

#: an operator's rule, what it says, the bound it gives, and the operators below it
Derivation: TypeAlias = dict[str, Any]
Interval: TypeAlias = tuple[Fraction, Fraction]


def step(rule: str, says: str, bound: str, inputs: Sequence[Derivation] = ()) -> Derivation:
    return {"rule": rule, "says": says, "bound": bound, "inputs": list(inputs)}


class Place(Enum):
    """Where the values of a column come from."""

    CELL = "cell"  # from the row's chunk alone, and the relation is local for it: its rows depend on that cell only
    LISTED = "listed"  # from some chunk, so the possible values are public; which rows have them is not
    OUTPUT = "output"  # from what an executable output


class Motion(Enum):
    """What a value can do at a key that stays, from the core to a version. In a ROW relation, and wherever nothing is known: ANY."""

    STAYS = "stays"
    RISES = "rises"  # or stays; NULL counts as less than every value
    ANY = "any"


class Extreme(Enum):
    """A trusted time of the rows of a group to which rows are only added."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Leaf:
    """One scan of a statement: a table and the chunks of it that are read."""

    number: int
    use: TableUse


@dataclass(frozen=True)
class Facts:
    """What is known of a column or an expression. What has bounds is never NULL."""

    type: str
    place: Place = Place.OUTPUT
    nullable: bool = True
    #: it lies between these
    low: Fraction | None = None
    high: Fraction | None = None
    #: values are multiples of it, in an exact type
    grid: Fraction | None = None
    motion: Motion = Motion.ANY
    #: what it is of the group's times
    extreme: Extreme | None = None
    labels: tuple[str, ...] | None = None
    #: the VALUES list it comes from, and its place there
    values: tuple[FromPublic, int] | None = field(default=None, compare=False)
    #: for CELL and LISTED: the value in terms of chunk and region, for each scan that rows may come from
    cells: Mapping[int, Expr] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None) or (self.low is not None and self.nullable):
            raise ValueError("a value with bounds is never NULL, and has both")

    def of_nothing(self) -> Facts:
        """The same, of a group that may have no rows: then it is NULL, which is less than every value, and what rises still does."""
        return replace(self, nullable=True, low=None, high=None)

    def unmoved(self) -> Facts:
        """The same, where nothing is known of how it changes."""
        return replace(self, motion=Motion.ANY, extreme=None)

    def or_null(self) -> Facts:
        """The same, of a value that may also be missing."""
        return replace(self, nullable=True, low=None, high=None).unmoved()


@dataclass(frozen=True)
class Change:
    """What one segment of one camera can do to a relation.

    ROW(τ): both versions are a common core plus at most τ rows each. KEY(τ; n⁺, n⁻): from the core to either version at most τ keys
    differ, at most n⁺ appear and at most n⁻ vanish.
    """

    tau: int
    #: by how much the number of rows may change
    n: int
    appear: int = 0
    vanish: int = 0
    #: when the number of rows is public: how many of the row slots may change
    sigma: int | None = None
    #: by column: bounds of its sum over a version less its sum over the core (calculus, Theorem 4)
    ups: Mapping[int, Interval] = field(default_factory=dict)

    def rebased(self, keyed: bool) -> Change:
        """Treated afresh as ROW, with the common rows as core."""
        return replace(self, tau=2 * self.tau if keyed else self.tau, appear=0, vanish=0)


@dataclass(frozen=True)
class Rows:
    """ROW: from the core to a version rows are added."""


@dataclass(frozen=True)
class Keyed:
    """KEY: one row for each value of the key; the empty key has exactly one row."""

    columns: frozenset[int]


Kind: TypeAlias = Rows | Keyed


@dataclass(frozen=True, kw_only=True)
class Relation:
    """What is known of any relation. What of it may be counted, grouped or joined is a matter of its type: every rule says by type which
    relations it takes. `Certificate` alone has a bound of the rows that change."""

    columns: Mapping[int, Facts]
    changes: Mapping[str, Change]
    cameras: Mapping[str, Camera]
    leaves: tuple[Leaf, ...]
    #: no version has more rows
    rows: int
    #: every chunk has its public number of rows
    full: bool
    #: what changes is in proportion to the chunks a segment meets
    linear: bool
    #: the relation in a form that is equal for equal relations
    form: Any
    derivation: Derivation = field(compare=False, default_factory=dict)

    def each(self, change: Callable[[Change], Change]) -> dict[str, Change]:
        return {name: change(one) for name, one in self.changes.items()}

    def weigh(self, value: Callable[[Change], Fraction | int]) -> Fraction:
        """Σ over cameras of K times the value: what noise of scale 1 would cost (calculus 7.5, the paper's sum)."""
        return sum((Fraction(self.cameras[name].k * value(change)) for name, change in self.changes.items()), Fraction(0))

    def total(self, value: Callable[[Change], Fraction | int]) -> Fraction:
        return sum((Fraction(value(change)) for change in self.changes.values()), Fraction(0))


@dataclass(frozen=True, kw_only=True)
class Certificate(Relation):
    """ROW or KEY: what a segment of each camera can change in the relation itself."""

    kind: Kind

    @property
    def key(self) -> frozenset[int] | None:
        """The columns of the key, where what is known is known of keys."""
        match self.kind:
            case Rows():
                return None
            case Keyed(columns=key):
                return key
            case _:
                assert_never(self.kind)

    @property
    def keyed(self) -> bool:
        return self.key is not None

    @property
    def bound(self) -> str:
        return _bound(self.changes, self.keyed)


@dataclass(frozen=True, kw_only=True)
class Joined(Relation):
    """Joined rows, which neither side bounds: only a GROUP BY of the columns that they are joined on may follow. `changes` has the cameras
    whose segments change some side, and no bound."""

    #: the sides, and the first column of each
    sides: tuple[tuple[Certificate, int], ...]
    how: JoinKind  # not RIGHT; INNER where there are more than two sides
    #: sets of columns that are equal in every joined row, one of each side
    classes: tuple[frozenset[int], ...]
    #: conditions beside the equalities
    filtered: bool
    #: the left side's rows without a partner (LEFT JOIN … WHERE key IS NULL)
    anti: bool
    loc: int

    def __post_init__(self) -> None:
        if len(self.sides) != 2 and self.how is not JoinKind.INNER:
            raise ValueError("an outer join has two sides")

    @property
    def bound(self) -> str:
        return "joined rows, to be grouped"


@dataclass(frozen=True, kw_only=True)
class Listed(Relation):
    """A public relation whose rows all appear, each once for each match or with NULLs: a GROUP BY of public columns must follow."""

    public: FromPublic
    #: the rows that have a match, in the numbering of the joined ones: `changes` are theirs
    kind: Kind
    #: the public columns that private rows match are equal to parts of their key
    within: bool
    #: a condition on the joined rows may drop groups
    filtered: bool
    loc: int

    @property
    def matched(self) -> Certificate:
        """The rows that have a match: what an aggregate sees that passes over the row of NULLs of a key without one."""
        return Certificate(kind=self.kind, columns=self.columns, changes=self.changes, cameras=self.cameras, leaves=self.leaves,
                           rows=self.rows, full=self.full, linear=self.linear, form=self.form, derivation=self.derivation)

    @property
    def bound(self) -> str:
        return _bound(self.changes, self.matched.keyed)


#: all there are
AnyRelation: TypeAlias = Certificate | Joined | Listed


def _bound(changes: Mapping[str, Change], keyed: bool) -> str:
    """For people: one camera plainly, several with their names."""
    shown = {name: _shown(change, keyed) for name, change in changes.items()}
    if len(set(shown.values())) <= 1:
        return next(iter(shown.values()), "public")
    if len(shown) > 4:
        return f"{'KEY' if keyed else 'ROW'}(tau={sum(c.tau for c in changes.values())} in all), {len(shown)} cameras"
    return "; ".join(f"{name}: {text}" for name, text in shown.items())


def _shown(change: Change, keyed: bool) -> str:
    head = f"KEY(tau={change.tau}; +{change.appear}, -{change.vanish})" if keyed else f"ROW(tau={change.tau})"
    return f"{head}, N={change.n}" + ("" if change.sigma is None else f", dense sigma={change.sigma}")


@dataclass(frozen=True)
class Cells:
    """The groups of a release: fixed by the statement, whatever the video shows."""

    keys: tuple[Key, ...]
    #: how many of them one trusted cell has: 1 without untrusted keys
    untrusted: int
    #: every untrusted group column is a function of the relation's key
    within_key: bool
    #: group columns that are trusted cells
    trusted: tuple[int, ...]
    derivation: Derivation = field(compare=False)


@dataclass(frozen=True)
class Bound:
    """One aggregate over all groups: what one segment of each camera may change, in the L1 sense, and the grid of its values."""

    by_camera: Mapping[str, Fraction]
    step: Fraction
    #: no value of the answer is larger, in absolute value
    largest: Fraction
    derivation: Derivation = field(compare=False)
    #: in proportion to the chunks a segment meets
    linear: bool = True

    @property
    def sensitivity(self) -> Fraction:
        return sum(self.by_camera.values(), Fraction(0))
