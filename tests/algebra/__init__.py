"""The calculus against PostgreSQL's own executor: the share of tests/verify that every change waits for."""
