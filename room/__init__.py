"""The room: a PostgreSQL of the engine's own, in which the inner queries of releases are evaluated, and nobody else has a session."""

from .allowance import Bound, bound, premises_of
from .deparse import Inner, inner_query
from .evaluate import chunk_moments
from .premises import MAX_MEMORY
from .room import Room

__all__ = ["MAX_MEMORY", "Bound", "Inner", "Room", "bound", "chunk_moments", "inner_query", "premises_of"]
