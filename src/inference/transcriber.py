"""From a checkpoint to a thing that turns songs into notes.

The configuration comes from the checkpoint alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..audio import hop_samples
from ..config import Experiment
from ..config.tasks import VOICE_PROGRAMS
from ..config.vocabularies import class_names
from ..model import Encoded, Transcriber, build_from
from ..model.checkpoint_file import experiment_of, load_weights, model_weights, read_checkpoint
from ..model.decoder import Constraint, DecoderWeights, DecodingOptions, Row, decode_stream
from ..model.decoder.choice import short_length
from ..model.decoder.products import resolve_precision
from ..notes.note import Note
from ..tokenizer import NoteTokenizer
from .choices import DEFAULT_CHOICES, DecodingChoices, chosen_subtask
from .find import find_checkpoint
from .grammar import TokenGrammar, find_instruments
from .pitch_check import PitchEvidence, voice_log_probabilities
from .song_queue import QueuedSong, QueuedWindow, SongQueue
from .stitching import Stitcher
from .windows import iterate_windows

Progress = Callable[[int, int], None]
"""Called with the windows done and the windows in all."""
Listener = Callable[[list[Note]], None]
"""Called with notes that are final."""


@dataclass
class Transcription:
    """What was heard in one song."""

    notes: list[Note]
    """Notes in seconds from the start, sorted; none starts after the end of the sound."""
    duration: float
    """Length of the sound in seconds."""
    errors: Counter[str] = field(default_factory=Counter)
    """Token sequences that were not well formed, by kind; those parts were dropped."""
    num_tokens: int = 0
    """Tokens that were written for it, those included that end a window."""
    constrained: bool = False
    """Whether only well-formed sequences could be written."""
    num_windows: int = 0
    elapsed: float = 0.0
    """Seconds it took."""
    class_names: dict[int, str] = field(default_factory=dict)
    """Name of the class of each program the task writes, for the tracks of a MIDI file."""
    name: str = ""
    """Name of the file it was read from; empty for samples."""

    @property
    def real_time_factor(self) -> float:
        """Seconds of sound transcribed in one second."""
        return self.duration / self.elapsed if self.elapsed > 0 else float("inf")


class SongTranscriber:
    """A network with its tokenizer: :meth:`transcribe` turns a file or samples into notes.

    Attributes:
        experiment: the configuration of the run the network is from.
        tokenizer: its tokens.
        choices: how it decodes, as it was asked for.
        model: the network in eval mode, on ``device``.
        class_names: name of the class of each program, for tracks and lists.
        source: the checkpoint file, or ``None`` for a network that was not loaded.
        num_weights: tensors loaded from the file.
    """

    def __init__(
        self,
        model: Transcriber,
        experiment: Experiment,
        tokenizer: NoteTokenizer,
        choices: DecodingChoices = DEFAULT_CHOICES,
        *,
        device: str | torch.device = "cpu",
        source: Path | None = None,
        num_weights: int = 0,
    ) -> None:
        self.experiment = experiment
        self.tokenizer = tokenizer
        self.choices = choices
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.batch_size = choices.batch_size or experiment.bsz.test
        inference = experiment.inference
        if choices.overlap is not None:
            inference = replace(inference, overlap=choices.overlap)
        self.overlap = inference.overlap
        self.pitch_check = inference.pitch_check
        self.subtask = chosen_subtask(tokenizer, choices.subtask)
        self.precision = resolve_precision(choices.precision, self.device)
        self._constrained = choices.constrained
        self._programs = find_instruments(tokenizer, choices.instruments) if choices.instruments else None
        self._start_from_ties = choices.start_from_ties
        self.min_note_ms = choices.min_note_ms
        names = class_names(tokenizer.task.program_vocab)
        # Voices keep the names by which read_midi knows them.
        self.class_names = {p: name for p, name in names.items() if p not in VOICE_PROGRAMS}
        self.source = source
        self.num_weights = num_weights

    def with_choices(self, choices: DecodingChoices) -> SongTranscriber:
        """The same network, not a copy of it, that decodes in another way."""
        return SongTranscriber(
            self.model,
            self.experiment,
            self.tokenizer,
            choices,
            device=self.device,
            source=self.source,
            num_weights=self.num_weights,
        )

    @property
    def sample_rate(self) -> int:
        """Samples per second the network hears."""
        return self.experiment.audio.sample_rate

    @property
    def seconds_per_window(self) -> float:
        """Seconds by which each window takes the song further."""
        return hop_samples(self.experiment.audio.segment_samples, self.overlap) / self.sample_rate

    def transcribe(
        self,
        song: str | Path | npt.ArrayLike,
        sample_rate: int | None = None,
        progress: Progress | None = None,
        listener: Listener | None = None,
    ) -> Transcription:
        """The notes of one song.

        Args:
            song: an audio file (any rate, channels and length, read piece by piece), or samples
                ``(samples,)`` or with a second axis for channels.
            sample_rate: of the samples; ``None`` means the network's own rate. Files know theirs.
            progress: called after each window.
            listener: called with the notes that became final, as soon as the windows they need are decoded;
                together they are the result. A note comes after all that end before its window.

        Raises:
            ValueError: the file is missing or no audio; the message names it.
        """
        ((_, result),) = self.transcribe_songs([song], sample_rate, progress, listener)
        if isinstance(result, Exception):
            raise result
        return result

    def transcribe_songs(
        self,
        songs: Iterable[str | Path | npt.ArrayLike],
        sample_rate: int | None = None,
        progress: Progress | None = None,
        listener: Listener | None = None,
    ) -> Iterator[tuple[int, Transcription | Exception]]:
        """Several songs as one stream of windows, so that the decoder's batch stays full to the last.

        Songs are opened when their turn comes; memory does not grow with their number or length.

        Args:
            songs, sample_rate: as in :meth:`transcribe`.
            progress: called with the windows done and those of the songs opened so far.
            listener: called with the notes of any song that became final.

        Yields:
            The number of a song and its transcription, as soon as it is complete; for one that cannot be read
            the error (``ValueError`` or ``OSError``).
        """
        queue = SongQueue(
            (partial(self._open, song, sample_rate) for song in songs),
            self.batch_size,
            self.tokenizer.num_channels,
        )
        for row in self._decode(queue):
            decoded = queue.put(row.number, row.ids.tolist())
            yield from queue.take_failures()
            if decoded is None:
                continue
            if listener is not None and decoded.new_notes:
                listener(decoded.new_notes)
            if progress is not None:
                progress(queue.num_done, queue.num_windows)
            if decoded.is_complete:
                yield decoded.song.number, self._finish(decoded.song)
        yield from queue.take_failures()

    def _decode(self, queue: SongQueue) -> Iterator[Row]:
        """The tokens of the windows of a queue, in the order in which rows end."""
        prefix = self.tokenizer.prefix_ids(self.subtask)
        length = self.tokenizer.sequence_length
        return decode_stream(
            DecoderWeights(self.model.decoder, self.precision),
            (self._encode(batch) for batch in queue.batches()),
            DecodingOptions(
                length,
                self.tokenizer.pad_id,
                self.tokenizer.eos_id,
                max_rows=self.batch_size * self.tokenizer.num_channels,
                expected_length=short_length(length) if self.tokenizer.num_channels > 1 else 0,
            ),
            constraint=self._constraint(),
            prefix=torch.tensor([prefix], device=self.device) if prefix else None,
        )

    def _open(self, source: str | Path | npt.ArrayLike, sample_rate: int | None, number: int) -> QueuedSong:
        segment = self.experiment.audio.segment_samples
        windows = iterate_windows(source, segment, self.sample_rate, sample_rate, self.overlap)
        stitcher = Stitcher(
            self.tokenizer,
            windows,
            start_from_ties=self._start_from_ties,
            evidence=self._evidence(windows.length),
            margin=self.pitch_check,
            shortest=self.min_note_ms / 1000,
        )
        return QueuedSong(
            number, windows, stitcher, Path(source).name if isinstance(source, (str, Path)) else ""
        )

    def _encode(self, batch: Sequence[QueuedWindow]) -> Tensor:
        """Memory (W·C, T, D) of a batch of windows."""
        audio = torch.from_numpy(np.stack([window.samples for window in batch]))[:, None]
        with torch.inference_mode():
            encoded = self.model.encode(audio.to(self.device, torch.float32))
            if self.pitch_check:
                self._listen(encoded, batch)
        return encoded.memory

    def _constraint(self) -> Constraint | None:
        if not self._constrained:
            return None
        return TokenGrammar(self.tokenizer, self.device, self._programs, self.subtask)

    def _finish(self, song: QueuedSong) -> Transcription:
        return Transcription(
            notes=sorted(song.notes),
            duration=song.stitcher.duration,
            errors=song.stitcher.errors,
            num_tokens=song.stitcher.num_tokens,
            constrained=self._constrained,
            num_windows=song.windows.num_windows,
            elapsed=time.perf_counter() - song.opened,
            class_names=self.class_names,
            name=song.name,
        )

    def _evidence(self, num_samples: int) -> PitchEvidence | None:
        if not self.pitch_check:
            return None
        audio = self.experiment.audio
        per_frame = self.experiment.model.samples_per_memory_frame(audio)
        return PitchEvidence(num_samples, audio.segment_samples, per_frame)

    def _listen(self, encoded: Encoded, batch: Sequence[QueuedWindow]) -> None:
        """Add the frame head's opinion on the windows of a batch to the evidence of their songs."""
        logits = self.model.frame_logits(encoded)
        assert logits is not None, "the configuration asks for a frame head with a voice"
        scores = voice_log_probabilities(logits, self.experiment.model.frame_groups)
        for window, values in zip(batch, scores, strict=True):
            assert window.song.stitcher.evidence is not None
            window.song.stitcher.evidence.add(window.number * window.song.windows.hop, values)


def load_transcriber(
    spec: str | Path,
    choices: DecodingChoices = DEFAULT_CHOICES,
    *,
    device: str = "auto",
    log_dir: Path | None = None,
    project: str | None = None,
) -> SongTranscriber:
    """A transcriber from a checkpoint: ``exp@last.ckpt``, ``exp``, or the path of a file.

    Args:
        spec: see :func:`~.find.find_checkpoint`.
        choices: how songs are decoded.
        device: ``auto`` (a GPU that works, else the CPU), ``cpu``, ``cuda`` or ``cuda:N``.
        log_dir: folder of the runs; default ``AMT_LOG_DIR`` or ``logs`` of the checkout.
        project: project of the run; ``None`` searches all.

    Raises:
        ValueError: no such file, a broken file, or weights that do not fit its own configuration.
    """
    path = find_checkpoint(spec, log_dir=log_dir, project=project)
    checkpoint = read_checkpoint(path, mmap=True)
    experiment = experiment_of(checkpoint, path)
    place = choose_device(device)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    model = build_from(experiment, tokenizer)
    count = load_weights(model, model_weights(checkpoint, path), path)
    return SongTranscriber(
        model,
        experiment,
        tokenizer,
        choices,
        device=place,
        source=path,
        num_weights=count,
    )


def untrained_transcriber(
    experiment: Experiment,
    choices: DecodingChoices = DEFAULT_CHOICES,
    *,
    seed: int = 0,
    device: str = "auto",
) -> SongTranscriber:
    """The same kind of network with fresh random weights: what training is compared with."""
    place = choose_device(device)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_from(experiment, tokenizer)
    return SongTranscriber(model, experiment, tokenizer, choices, device=place)


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
