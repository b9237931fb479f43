"""Privid on PostgreSQL: duration-private answers about video."""

__all__ = ["__version__"]

__version__ = "0.4.0"
