"""Opening any audio file, slicing by samples, resampling, cutting into windows."""

from .reading import (
    AudioError,
    AudioInfo,
    audio_info,
    audio_length,
    is_audio_file,
    iterate_blocks,
    looks_like_audio,
    read_audio,
)
from .windows import cut_windows, hop_samples, num_sliding_windows, num_windows

__all__ = [
    "AudioError",
    "AudioInfo",
    "audio_info",
    "audio_length",
    "cut_windows",
    "hop_samples",
    "is_audio_file",
    "iterate_blocks",
    "looks_like_audio",
    "num_sliding_windows",
    "num_windows",
    "read_audio",
]
