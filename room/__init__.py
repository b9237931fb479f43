"""The room: a PostgreSQL of the engine's own, in which the inner queries of releases are evaluated, and nobody else has a session.

What it offers is imported from its modules: the command line, the reader and the evaluator want a few, and start without the rest.
"""
