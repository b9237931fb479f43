"""Verification beyond the tests: what takes longer than a change can wait for (see README.md)."""
