"""The room: a PostgreSQL of the engine's own, in which the inner queries of releases are evaluated, and nobody else has a session."""

from .allowance import Bound, bound
from .deparse import Inner, inner_query
from .evaluate import chunk_moments
from .room import Room

__all__ = ["Bound", "Inner", "Room", "bound", "chunk_moments", "inner_query"]
