"""amt: training and running models that transcribe music to notes."""

__version__ = "0.1.0"
