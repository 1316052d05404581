"""Weights of other systems: published YourMT3+ checkpoints, read, renamed and written as ours, and back."""
