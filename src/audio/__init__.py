"""Opening any audio file, slicing by samples, resampling, cutting into windows."""

from .reading import (
    AudioError,
    AudioInfo,
    audio_info,
    audio_length,
    is_audio_file,
    iterate_blocks,
    read_audio,
)
from .windows import cut_windows, num_windows

__all__ = [
    "AudioError",
    "AudioInfo",
    "audio_info",
    "audio_length",
    "cut_windows",
    "is_audio_file",
    "iterate_blocks",
    "num_windows",
    "read_audio",
]
