"""What the commands that show something read from a running database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

from .target import Target, reported
from .terminal import CommandFailed

__all__ = ["Camera", "read_camera", "rows"]


@dataclass(frozen=True)
class Camera:
    """A camera as privid.cameras shows it, times in UTC."""

    name: str
    starts: datetime
    ends: datetime
    rho: timedelta
    k: int
    epsilon: float

    def moment(self, seconds: float) -> datetime:
        """So many seconds after the first frame."""
        return self.starts + timedelta(seconds=seconds)


def rows(target: Target, statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
    """As a stack's superuser, elsewhere as whoever the target names; what PostgreSQL refuses is told as it tells it."""
    with target.connect() as connection, reported():
        return connection.execute(statement, values).fetchall()


def read_camera(target: Target, name: str) -> Camera:
    """A camera whose footage the engine has seen."""
    found = rows(target, "SELECT starts, ends, rho, k, epsilon::float8 FROM privid.cameras WHERE camera = %s", name)
    if not found:
        raise CommandFailed(f'camera "{name}" does not exist', "privid psql -- -c 'SELECT camera FROM privid.cameras' shows all.")
    starts, ends, rho, k, epsilon = found[0]
    if starts is None or ends is None:
        raise CommandFailed(f'footage of camera "{name}" has not been seen yet', "Start the engine with privid up and use the camera.")
    return Camera(name, starts.astimezone(UTC), ends.astimezone(UTC), rho, k, epsilon)
