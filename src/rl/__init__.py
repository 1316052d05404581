"""REINFORCE on sampled label sequences."""

from __future__ import annotations
