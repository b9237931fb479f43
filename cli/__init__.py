"""The command line: an embedded PostgreSQL with its engine, and tools around it."""

__all__: list[str] = []
