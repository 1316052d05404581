"""What a segment of audio is: its rate, its length and its spectrogram."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import check_name, check_positive

CODECS = ("spec", "melspec", "logspec")

SHIFT_STEPS_PER_SECOND = 100
"""Resolution of the time-shift tokens: one step is 10 ms."""


@dataclass(frozen=True)
class AudioConfig:
    """Segment length and front end. All lengths are in samples unless the name says otherwise."""

    codec: str = "melspec"
    """Front end: ``spec`` (linear), ``melspec``, or ``logspec`` (log-frequency bins)."""
    sample_rate: int = 16000
    """Samples per second of everything the model hears."""
    segment_samples: int = 65534
    """Length of one segment (flag ``-if``): 65534 samples are 4.096 s."""
    hop_length: int = 128
    """Step of the STFT."""
    n_fft: int = 2048
    """Length of the STFT window and transform."""
    n_mels: int = 512
    """Bands of ``melspec``."""
    f_min: float = 50.0
    """Lowest edge of the mel bands in Hz."""
    f_max: float = 8000.0
    """Highest edge of the mel bands in Hz."""
    log_bins: int = 216
    """Bins of ``logspec``."""
    log_bins_per_semitone: int = 3
    """Resolution of ``logspec``."""
    log_min_pitch: float = 38.0
    """Centre of the lowest ``logspec`` bin as a MIDI pitch."""

    def __post_init__(self) -> None:
        check_name("audio codec", self.codec, CODECS)
        check_positive(
            self,
            sample_rate="audio.sample_rate",
            segment_samples="-if",
            hop_length="-hop",
            n_fft="audio.n_fft",
            n_mels="-nmel",
            log_bins="audio.log_bins",
        )
        if self.segment_samples <= self.n_fft // 2:
            raise ValueError(
                f"-if {self.segment_samples} is too short: a segment needs more than n_fft/2 = "
                f"{self.n_fft // 2} samples for the reflected edges of the STFT"
            )
        if not 0 <= self.f_min < self.f_max <= self.sample_rate / 2:
            raise ValueError(
                f"mel edges {self.f_min} to {self.f_max} Hz must rise within 0 to {self.sample_rate / 2} Hz"
            )

    @property
    def num_frames(self) -> int:
        """STFT frames per segment (centred frames, both edges included)."""
        return self.segment_samples // self.hop_length + 1

    @property
    def num_bins(self) -> int:
        """Frequency bins the front end gives."""
        return {"spec": self.n_fft // 2, "melspec": self.n_mels, "logspec": self.log_bins}[self.codec]

    @property
    def segment_seconds(self) -> float:
        """Length of one segment in seconds."""
        return self.segment_samples / self.sample_rate

    @property
    def seconds_per_frame(self) -> float:
        """Time between STFT frames in seconds."""
        return self.hop_length / self.sample_rate

    @property
    def max_shift_steps(self) -> int:
        """Number of time-shift tokens: steps 0 to ``max_shift_steps - 1`` of 10 ms."""
        return max_shift_steps(self.segment_samples, self.sample_rate)


def max_shift_steps(segment_samples: int, sample_rate: int = 16000) -> int:
    """Number of time-shift tokens a segment of that many samples needs (206 for 32767 at 16 kHz)."""
    return segment_samples * SHIFT_STEPS_PER_SECOND // sample_rate + 2
