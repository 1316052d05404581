"""Stores of prepared songs, and the way from them to training batches."""
