"""The tiny run and its store."""

from tiny_fixtures import sines, tiny

__all__ = ["sines", "tiny"]
