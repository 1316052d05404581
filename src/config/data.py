"""How batches are made: sizes, loading and augmentation."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import check_least, check_name


@dataclass(frozen=True)
class BatchSizes:
    """Segments per batch (section BSZ)."""

    sub: int = 36
    """Segments of a sub-batch; its samples share a pool of foreign stems."""
    local: int = 36
    """Segments per process and batch; a multiple of ``sub``."""
    validation: int = 36
    """Windows decoded together in validation."""
    test: int = 36
    """Windows decoded together in test and predict."""

    def __post_init__(self) -> None:
        check_least("-bsz SUB", self.sub, 1)
        check_least("-bsz LOCAL", self.local, 1)
        check_least("--val-batch-size (AMT_VAL_BATCH_SIZE)", self.validation, 1)
        check_least("--val-batch-size (bsz.test)", self.test, 1)
        if self.local % self.sub:
            fits = [size for size in range(1, self.local + 1) if self.local % size == 0]
            pairs = ", ".join(f"-bsz {size} {self.local}" for size in fits[-4:])
            raise ValueError(
                f"-bsz {self.sub} {self.local}: the local batch {self.local} is not a multiple of the "
                f"sub-batch {self.sub}; pairs that fit: {pairs}"
            )


@dataclass(frozen=True)
class DataIO:
    """DataLoader settings (section DATAIO)."""

    num_workers: int = 32
    """Worker processes per rank; 0 loads in the main process."""
    prefetch_factor: int = 4
    """Batches each worker prepares ahead."""
    persistent_workers: bool = True
    pin_memory: bool = True

    def __post_init__(self) -> None:
        check_least("--num-workers (AMT_NUM_WORKERS)", self.num_workers, 0)
        check_least("AMT_PREFETCH_FACTOR", self.prefetch_factor, 1)


WEIGHT_METRICS = ("frame_f", "onset_f", "offset_f", "multi_f")
"""Validation scores that data sets can be weighted by."""


@dataclass(frozen=True)
class DynamicWeighting:
    """Draws that follow validation scores (DYNAMIC_DATASET_WEIGHTING); for long runs on many data sets."""

    enabled: bool = False
    metric: str = "frame_f"
    """Score of a data set's validation songs, one of ``WEIGHT_METRICS``."""
    ema: float = 0.9
    """Share of the averaged score that a validation keeps."""
    momentum: float = 0.5
    """Share of its factor that a data set keeps at a validation."""
    min_factor: float = 0.5
    max_factor: float = 2.0

    def __post_init__(self) -> None:
        check_name("AMT_DYNAMIC_DATASET_WEIGHTING_METRIC", self.metric, WEIGHT_METRICS)
        for name in ("ema", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"AMT_DYNAMIC_DATASET_WEIGHTING_{name.upper()} must lie from 0 to below 1, "
                    f"not {getattr(self, name):g}"
                )
        if not 0 < self.min_factor <= 1 <= self.max_factor:
            raise ValueError(
                "AMT_DYNAMIC_DATASET_WEIGHTING_MIN must lie above 0 and not above 1, _MAX at 1 or above, not "
                f"{self.min_factor:g} and {self.max_factor:g}"
            )


MAX_SHIFT = 48
"""Most semitones of a pitch shift."""
PITCH_METHODS = ("speed", "stretch", "device")
"""Ways to shift the pitch."""
_PROBABILITIES = {
    "stem_keep_prob": "-iaug",
    "noise_prob": "--noise-prob",
    "reverb_prob": "--reverb-prob",
    "eq_prob": "--eq-prob",
    "codec_prob": "--codec-prob",
    "xaug_include_singing": "--xaug-include-singing",
}
"""Field to flag."""


@dataclass(frozen=True)
class Augmentation:
    """Online augmentation of stems and mixes (section AUGMENTATION)."""

    amp_range: tuple[float, float] = (0.7, 1.3)
    """Range of the uniform gain of each stem, and of one more of the whole mix."""
    stem_keep_prob: float = 0.15
    """Probability that a stem is kept; 1.0 keeps all. In a task with target programs theirs always are."""
    xaug_max_k: int = 2
    """Most foreign sources mixed into one segment; 0 is off."""
    xaug_tau: float = 0.5
    """Decay rate of the number of foreign sources."""
    xaug_alpha: float = 1.0
    """Weibull shape of that decay; 1 is exponential."""
    xaug_no_instr_overlap: bool = True
    """Never mix two sources of one instrument class."""
    xaug_no_drum_overlap: bool = True
    """Never mix two drum stems."""
    xaug_intra_stem: bool = True
    """Drop stems of foreign sources as well."""
    xaug_max_subunit_stems: int = 12
    """Most stems of a segment that have a gain of their own; further ones share those."""
    xaug_include_singing: float = 0.0
    """Probability that a segment without singing gets a foreign source with singing, if the pool has one."""
    pitch_shift_range: tuple[float, float] = (-6.0, 6.0)
    """Range of the pitch shift in semitones; (0, 0) is off. Drums are never shifted."""
    pitch_shift_method: str = "speed"
    """``speed``: played faster or slower, labels move in time too; ``stretch``: time is kept; ``device``: it
    is kept, too, and the work is done where the model runs."""
    pitch_shift_detune: float = 0.0
    """Further uniform detuning of at most this many semitones, labels unchanged."""
    noise_prob: float = 0.0
    """Probability of added noise (white to brown)."""
    noise_snr_range: tuple[float, float] = (5.0, 40.0)
    """Its signal-to-noise ratio in dB."""
    reverb_prob: float = 0.0
    """Probability of a synthetic room."""
    eq_prob: float = 0.0
    """Probability that each stem with target notes gets a random smooth equalisation."""
    codec_prob: float = 0.0
    """Probability of a random codec: a narrow band, 8 bit mu-law or a coarse transform coder."""
    negative_share: float = -1.0
    """Share of segments without target notes; a negative number leaves them as they fall."""

    def __post_init__(self) -> None:
        low, high = self.amp_range
        if not 0 <= low <= high:
            raise ValueError(f"-amp {low} {high}: gains need 0 <= LO <= HI")
        if self.pitch_shift_range[0] > self.pitch_shift_range[1]:
            raise ValueError(f"-ps {self.pitch_shift_range[0]} {self.pitch_shift_range[1]}: LO is above HI")
        if max(abs(end) for end in self.pitch_shift_range) > MAX_SHIFT:
            low, high = self.pitch_shift_range
            raise ValueError(f"-ps {low:g} {high:g}: at most {MAX_SHIFT} semitones, four octaves, either way")
        if self.noise_snr_range[0] > self.noise_snr_range[1]:
            low, high = self.noise_snr_range
            raise ValueError(f"--noise-snr {low:g} {high:g}: LO is above HI")
        check_least("--pitch-detune", self.pitch_shift_detune, 0)
        for name, flag in _PROBABILITIES.items():
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{flag} is a probability from 0 to 1, not {getattr(self, name):g}")
        check_least("-xk", self.xaug_max_k, 0)
        if self.xaug_tau <= 0 or self.xaug_alpha <= 0:
            raise ValueError("-xtau and -xalpha must be positive")
        check_least("--xaug-max-subunit-stems", self.xaug_max_subunit_stems, 1)
        check_name("pitch shift method", self.pitch_shift_method, PITCH_METHODS)
        if self.pitch_shift_method == "device" and self.reverb_prob + self.noise_prob + self.codec_prob > 0:
            raise ValueError(
                "--pitch-method device shifts the sound after the loader processes, where rooms, noise and "
                "codecs have their place; choose stretch, or leave out --reverb-prob, --noise-prob and "
                "--codec-prob"
            )
        if not self.negative_share <= 1.0:
            raise ValueError(f"--negative-share is a share of at most 1, not {self.negative_share}")


@dataclass(frozen=True)
class DataConfig:
    """Which data a run sees."""

    presets: tuple[str, ...] = ("musicnet_thickstun_ext_em",)
    """Data presets (flag ``-d``), or names of prepared stores."""
    samples_per_epoch: int = 90000
    """Training segments that count as one epoch in names and logs (flag ``-se``)."""
    validation_files: int = 0
    """First N songs of each validation set; 0 takes all."""

    def __post_init__(self) -> None:
        if not self.presets:
            raise ValueError("-d: the list of data presets is empty; name one")
        check_least("-se", self.samples_per_epoch, 1)
        check_least("--validation-files", self.validation_files, 0)
