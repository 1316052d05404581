"""From waveform to spectrogram, one file per codec."""

from __future__ import annotations

from ...config import AudioConfig, unknown_name
from .linear import LinearSpectrogram
from .log_frequency import LogFrequencySpectrogram
from .mel import MelSpectrogram
from .stft import Spectrogram

_TABLE: dict[str, type[Spectrogram]] = {
    "spec": LinearSpectrogram,
    "melspec": MelSpectrogram,
    "logspec": LogFrequencySpectrogram,
}


def build_frontend(audio: AudioConfig) -> Spectrogram:
    """The front end that ``audio.codec`` names.

    Raises:
        ValueError: the name is unknown, or the numbers leave a bin without a frequency.
    """
    if audio.codec not in _TABLE:
        raise unknown_name("audio codec", audio.codec, _TABLE)
    return _TABLE[audio.codec](audio)


__all__ = ["Spectrogram", "build_frontend"]
