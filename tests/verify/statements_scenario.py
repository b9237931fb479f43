"""A scenario: a statement with all that happens around it, made from a seed, for both sides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .statements_calls import Calls
from .statements_forms import Forms, Step
from .statements_moves import interruption, move, move_of
from .statements_releases import Release, Releases
from .statements_settings import Setting

__all__ = ["FLAVOURS", "Author", "Scenario"]

#: epsilon of a release whose values are compared: its noise is small against what is claimed
SURE = "100"

#: What a scenario is about. Most are about anything; some dwell on what the others seldom put
#: together: rows of a public table that change under a statement, the order of keys, and
#: conditions that take long.
FLAVOURS, WEIGHTS = ("any", "public rows", "order", "time"), (80, 10, 6, 4)


@dataclass(frozen=True)
class Scenario:
    """Steps in order, and what takes them back."""

    form: str
    steps: tuple[Step, ...]
    undo: tuple[Step, ...]
    #: what others do while the statement runs, and how many seconds after its beginning
    racing: tuple[tuple[float, Step], ...] = ()
    #: keys and aggregates of the release's rows, where their values are compared
    plain: tuple[int, int] | None = None
    #: whether it is about time: then the usual difference of times is no excuse
    timed: bool = False

    @property
    def text(self) -> str:
        lines = [f"{step.who:>5}: {step.text}" for step in self.steps]
        lines += [f"after {after * 1000:.0f} ms, {step.who}: {step.text}"
                  for after, step in self.racing]
        return "\n".join(lines)

    @property
    def ends_sessions(self) -> bool:
        return any("pg_terminate_backend" in step.text for _, step in self.racing)

    def without(self, index: int) -> Scenario:
        return replace(self, steps=self.steps[:index] + self.steps[index + 1:])


@dataclass
class Author:
    """Writes scenarios from seeds."""

    calls: Calls
    settings: Sequence[Setting]
    #: whether the second session acts while the statement runs, and not only between steps
    racing: bool = False
    #: what all scenarios are about, if not anything
    flavour: str | None = None

    def write(self, seed: str) -> Scenario:
        rng = random.Random(seed)
        flavour = self.flavour or rng.choices(FLAVOURS, WEIGHTS)[0]
        public = rng.choice(("many", "many", "plates", "words"))
        releases = Releases(rng, calls=self.calls)
        match flavour:
            case "public rows":
                release = releases.simple(public)
            case "order":
                release = releases.listing()
            case "time":
                release = releases.slow()
            case _:
                release = releases.draw(parametrised=rng.random() < 0.06)
        forms = Forms(rng, releases.typed)
        # what dwells on something is mostly sent in the plainest way, where most is seen of it
        if rng.random() < (0.6 if release.plain or flavour != "any" else 0.0):
            form, steps = "plain", forms.plain(release)
        else:
            form, steps = forms.draw(release)
        plain = release.plain if form == "plain" and rng.random() < 0.8 else None
        if plain:
            steps = [Step(f"SET privid.epsilon = {SURE}"),
                     Step(f"EXPLAIN (FORMAT JSON) {release.text}", claims=True), *steps]
        steps = self.with_snapshot(rng, steps, 0.5 if flavour == "public rows" else 0.15)
        of = public if flavour == "public rows" else None
        steps, undo, racing = self.with_moves(rng, steps, of)
        return Scenario(form, (*self.before(rng, flavour), *steps), (*undo, *forms.cleanup),
                        tuple(sorted(racing, key=lambda item: item[0])), plain, flavour == "time")

    def with_snapshot(self, rng: random.Random, steps: list[Step], chance: float) -> list[Step]:
        """In a transaction that has looked at public tables before."""
        if steps[0].text.startswith("BEGIN") or rng.random() > chance:
            return steps
        level = rng.choice(("REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED"))
        return [Step(f"BEGIN ISOLATION LEVEL {level}"),
                Step("SELECT count(*) AS k FROM many, plates"), *steps]

    def with_moves(self, rng: random.Random, steps: list[Step], public: str | None
                   ) -> tuple[list[Step], list[Step], list[tuple[float, Step]]]:
        """Steps, undo and races, with what the second session does."""
        steps, undo, racing = list(steps), list[Step](), list[tuple[float, Step]]()
        number = rng.choice((1, 1, 2) if self.racing or public else (0, 0, 1, 1, 2))
        for made in [move_of(rng, public) if public else move(rng) for _ in range(number)]:
            undo = [*made.undoes, *undo]
            if self.racing and rng.random() < 0.7:
                after = rng.uniform(0, 0.03)
                racing += [(after, step) for step in made.does]
                continue
            # right behind a snapshot is where rows of then and a catalog of now differ most
            behind = steps[0].text.startswith("BEGIN ISOLATION") and rng.random() < 0.5
            place = 2 if behind else rng.randint(0, len(steps) - 1)
            steps[place:place] = made.does
        if self.racing and rng.random() < 0.3:
            made, after = interruption(rng), rng.uniform(0, 0.03)
            racing += [(after, step) for step in made.does]
            undo = [*made.undoes, *undo]
        return steps, undo, racing

    def before(self, rng: random.Random, flavour: str) -> list[Step]:
        """Settings of the session; those of the planner and of memory more often."""
        steps = []
        for _ in range(rng.choice((1, 2, 4)) if self.settings and rng.random() < 0.45 else 0):
            often = rng.random() < 0.6
            setting = rng.choice([s for s in self.settings if s.plans or not often])
            value = rng.choice(setting.values)
            steps.append(Step(f"SELECT set_config('{setting.name}', '{value}', false)"))
        if flavour == "order":
            joins = [s for s in self.settings if s.joins]
            several = rng.sample(joins, min(len(joins), rng.choice((1, 1, 2, 3))))
            steps += [Step(f"SET {setting.name} = off") for setting in several]
        if rng.random() < 0.2:
            # of a release that no run before has made: else its noise would be the same in every run
            steps.append(Step("SET privid.reuse = on; SET privid.epsilon = 1.{turn}"))
        if self.racing and rng.random() < 0.2:
            steps.append(Step(f"SET statement_timeout = {rng.choice((1, 5, 10, 20, 50))}"))
        return steps

    def calm(self, seed: str) -> Release:
        """A release alone."""
        return Releases(random.Random(seed), calls=self.calls).draw()
