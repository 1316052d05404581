"""Transcription over HTTP on one's own machine: a page to drop songs on, and a small API behind it."""
