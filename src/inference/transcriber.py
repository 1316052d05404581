"""From a checkpoint to a thing that turns songs into notes.

The configuration comes from the checkpoint alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from ..config import Experiment
from ..model import Encoded, Transcriber, build_model
from ..model.checkpoint_file import load_weights, model_weights, read_checkpoint
from ..notes.note import Note
from ..tokenizer import NoteTokenizer
from .find import find_checkpoint
from .pitch_check import PitchEvidence, voice_log_probabilities
from .windows import decode_windows, iterate_windows, join_tokens, regroup, trim_tokens

Progress = Callable[[int, int], None]
"""Called with the windows done and the windows in all."""


@dataclass
class Transcription:
    """What was heard in one song."""

    notes: list[Note]
    """Notes in seconds from the start, sorted; none starts after the end of the sound."""
    duration: float
    """Length of the sound in seconds."""
    errors: Counter[str] = field(default_factory=Counter)
    """Token sequences that were not well formed, by kind; those parts were dropped."""
    num_windows: int = 0
    elapsed: float = 0.0
    """Seconds it took."""

    @property
    def real_time_factor(self) -> float:
        """Seconds of sound transcribed in one second."""
        return self.duration / self.elapsed if self.elapsed > 0 else float("inf")


class SongTranscriber:
    """A network with its tokenizer: :meth:`transcribe` turns a file or samples into notes.

    Attributes:
        experiment: the configuration of the run the network is from.
        tokenizer: its tokens.
        model: the network in eval mode, on ``device``.
        source: the checkpoint file, or ``None`` for a network that was not loaded.
        num_weights: tensors loaded from the file.
    """

    def __init__(
        self,
        model: Transcriber,
        experiment: Experiment,
        tokenizer: NoteTokenizer,
        *,
        device: str | torch.device = "cpu",
        batch_size: int | None = None,
        overlap: float | None = None,
        source: Path | None = None,
        num_weights: int = 0,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch size must be at least 1, not {batch_size}")
        self.experiment = experiment
        self.tokenizer = tokenizer
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.batch_size = batch_size or experiment.bsz.test
        chosen = experiment.inference if overlap is None else replace(experiment.inference, overlap=overlap)
        self.overlap = chosen.overlap
        self.pitch_check = chosen.pitch_check
        self.source = source
        self.num_weights = num_weights

    @property
    def sample_rate(self) -> int:
        """Samples per second the network hears."""
        return self.experiment.audio.sample_rate

    def transcribe(
        self,
        song: str | Path | npt.ArrayLike,
        sample_rate: int | None = None,
        progress: Progress | None = None,
    ) -> Transcription:
        """The notes of one song.

        Args:
            song: an audio file (any rate, channels and length, read piece by piece), or samples
                ``(samples,)`` or with a second axis for channels.
            sample_rate: of the samples; ``None`` means the network's own rate. Files know theirs.
            progress: called after each batch.

        Raises:
            ValueError: the file is missing or no audio; the message names it.
        """
        started = time.perf_counter()
        segment = self.experiment.audio.segment_samples
        windows = iterate_windows(song, segment, self.sample_rate, sample_rate, self.overlap)
        done = 0
        parts: list[npt.NDArray[np.int32]] = []
        evidence = self._evidence(windows.length)
        for batch in regroup(windows.pieces, self.batch_size):
            tokens = decode_windows(
                self.model,
                batch,
                self.batch_size,
                self.tokenizer.max_length,
                None if evidence is None else self._listener(evidence, done * windows.hop, windows.hop),
            )
            parts.append(trim_tokens(tokens, self.tokenizer.pad_id))
            done += len(batch)
            if progress is not None:
                progress(done, windows.num_windows)
        overlapping = windows.hop < segment
        decoded = self.tokenizer.decode(
            join_tokens(parts, self.tokenizer.pad_id),
            windows.starts(),
            seams=windows.seams(segment) if overlapping else None,
        )
        duration = windows.length / self.sample_rate
        notes = decoded.notes
        if evidence is not None:
            notes = evidence.correct(notes, self.pitch_check, self.sample_rate)
        return Transcription(
            notes=_within(notes, duration),
            duration=duration,
            errors=Counter(decoded.errors),
            num_windows=done,
            elapsed=time.perf_counter() - started,
        )

    def _evidence(self, num_samples: int) -> PitchEvidence | None:
        if not self.pitch_check:
            return None
        audio = self.experiment.audio
        per_frame = self.experiment.model.samples_per_memory_frame(audio)
        return PitchEvidence(num_samples, audio.segment_samples, per_frame)

    def _listener(self, evidence: PitchEvidence, first_sample: int, hop: int) -> Callable[[Encoded], None]:
        """Adds the frame head's opinion on the windows of a batch to ``evidence``."""

        def listen(encoded: Encoded) -> None:
            logits = self.model.frame_logits(encoded)
            assert logits is not None, "the configuration asks for a frame head with a voice"
            for number, scores in enumerate(
                voice_log_probabilities(logits, self.experiment.model.frame_groups)
            ):
                evidence.add(first_sample + number * hop, scores)

        return listen


def load_transcriber(
    spec: str | Path,
    *,
    device: str = "auto",
    log_dir: Path | None = None,
    project: str | None = None,
    batch_size: int | None = None,
    overlap: float | None = None,
) -> SongTranscriber:
    """A transcriber from a checkpoint: ``exp@last.ckpt``, ``exp``, or the path of a file.

    Args:
        spec: see :func:`~.find.find_checkpoint`.
        device: ``auto`` (a GPU that works, else the CPU), ``cpu``, ``cuda`` or ``cuda:N``.
        log_dir: folder of the runs; default ``AMT_LOG_DIR`` or ``logs`` of the checkout.
        project: project of the run; ``None`` searches all.
        batch_size: windows decoded together; ``None`` takes the checkpoint's.
        overlap: share of a window that the next one hears again; ``None`` takes the checkpoint's.

    Raises:
        ValueError: no such file, a broken file, or weights that do not fit its own configuration.
    """
    path = find_checkpoint(spec, log_dir=log_dir, project=project)
    checkpoint = read_checkpoint(path, mmap=True)
    text = checkpoint.get("experiment")
    if not isinstance(text, str):
        raise ValueError(f"{path} does not hold its configuration, so no model can be built from it")
    try:
        experiment = Experiment.from_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    place = choose_device(device)
    model, tokenizer = _build(experiment)
    count = load_weights(model, model_weights(checkpoint, path), path)
    return SongTranscriber(
        model,
        experiment,
        tokenizer,
        device=place,
        batch_size=batch_size,
        overlap=overlap,
        source=path,
        num_weights=count,
    )


def untrained_transcriber(
    experiment: Experiment, *, seed: int = 0, device: str = "auto", batch_size: int | None = None
) -> SongTranscriber:
    """The same kind of network with fresh random weights: what training is compared with."""
    place = choose_device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, tokenizer = _build(experiment)
    return SongTranscriber(model, experiment, tokenizer, device=place, batch_size=batch_size)


def choose_device(name: str) -> torch.device:
    """``auto``, ``cpu``, ``cuda`` or ``cuda:N`` as a device that has been seen to work.

    Raises:
        ValueError: an unknown name, or a GPU that was asked for and is not there or does not work.
    """
    lowered = name.strip().lower()
    if lowered == "cpu":
        return torch.device("cpu")
    if lowered != "auto" and lowered.partition(":")[0] != "cuda":
        raise ValueError(f"unknown device {name!r}; known: auto, cpu, cuda, cuda:N")
    wanted = "cuda" if lowered == "auto" else lowered
    try:
        device = torch.device(wanted)
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU")
        torch.ones(2, device=device).sum().item()
    except (RuntimeError, AssertionError) as error:
        if lowered == "auto":
            return torch.device("cpu")
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"device {name} does not work ({reason}); use --device cpu or auto") from None
    return device


def _build(experiment: Experiment) -> tuple[Transcriber, NoteTokenizer]:
    tokenizer = NoteTokenizer.from_task(
        experiment.task,
        segment_samples=experiment.audio.segment_samples,
        max_length=experiment.event_length,
        sample_rate=experiment.audio.sample_rate,
    )
    model = build_model(
        experiment.model,
        experiment.audio,
        tokenizer.vocab_size,
        tokenizer.num_channels,
        pad_id=tokenizer.pad_id,
        eos_id=tokenizer.eos_id,
        max_length=tokenizer.max_length,
    )
    return model, tokenizer


def _within(notes: list[Note], duration: float) -> list[Note]:
    """Notes that start while there is sound, ended at its end (the last window is padded with silence)."""
    kept = [note for note in notes if note.onset < duration]
    return sorted(
        note._replace(offset=duration) if note.offset > duration and not note.is_drum else note
        for note in kept
    )
