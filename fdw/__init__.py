"""The foreign-data wrapper: the C library that PostgreSQL loads, and the same tables for Python."""

from .wrapper import ChunkRun, ChunkTable

__all__ = ["ChunkRun", "ChunkTable"]
