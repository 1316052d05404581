"""What is tested: a checkpoint that transcribes, or a folder of somebody else's MIDI files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..config.experiment import Experiment
from ..data.scored import Reference
from ..data.store import Song
from ..inference.choices import DecodingChoices, chosen_subtask
from ..inference.transcriber import SongTranscriber
from ..model.checkpoint_header import read_header
from ..notes import read_midi
from ..notes.note import Note, array_to_notes, note_programs, notes_to_array
from ..tokenizer import NoteTokenizer

MIDI_ENDINGS = (".mid", ".midi", ".MID", ".MIDI")


@dataclass(frozen=True)
class ScoredSong:
    """A song to estimate and what it is held against."""

    set_name: str
    song: Song
    reference: Reference


@dataclass(frozen=True)
class Estimate:
    """What a system found in a song."""

    notes: list[Note]
    audio_sha256: str
    num_windows: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    class_names: Mapping[int, str] = field(default_factory=dict)
    """Track names for a MIDI file of the notes."""
    file: Path | None = None
    """The MIDI file the notes are from."""
    programs: Counter[int] = field(default_factory=Counter)
    """Notes of each program (128: drums) in that file, also of those the task does not take."""


class System(Protocol):
    """Anything that estimates the notes of songs."""

    @property
    def name(self) -> str:
        """Name in tables."""

    @property
    def tokenizer(self) -> NoteTokenizer:
        """Of the task that says which notes count."""

    @property
    def subtask(self) -> str | None:
        """The sub-task all songs are asked for, as it was named; None takes the first each song allows."""

    def facts(self) -> dict[str, Any]:
        """Plain facts about the system."""

    def conventions(self) -> dict[str, Any]:
        """Plain facts about how it is used."""

    def estimate(self, songs: Sequence[ScoredSong]) -> Iterator[tuple[int, Estimate | Exception]]:
        """The number of each song and what was found, in any order; the error for one that failed."""


class ModelSystem:
    """A checkpoint.

    Args:
        transcriber: the network, as the user chose to decode.
        name: as the user named it.
        choices: those that the transcriber was made with.
    """

    def __init__(self, transcriber: SongTranscriber, name: str, choices: DecodingChoices) -> None:
        self._transcriber = transcriber
        self.name = name
        self.subtask = choices.subtask
        self._choices = choices
        self._asked = transcriber.subtask
        self._facts: dict[str, Any] | None = None

    @property
    def tokenizer(self) -> NoteTokenizer:
        """Of the checkpoint's task."""
        return self._transcriber.tokenizer

    def facts(self) -> dict[str, Any]:
        """Which weights these are, as it was when they were asked for first."""
        if self._facts is None:
            self._facts = self._file_facts()
        return dict(self._facts)

    def _file_facts(self) -> dict[str, Any]:
        transcriber = self._transcriber
        source = transcriber.source
        header = None if source is None else read_header(source)
        return {
            "kind": "checkpoint",
            "file": None if source is None else source.name,
            "sha256": None if source is None else _file_hash(source),
            "experiment": transcriber.experiment.exp_id,
            "step": None if header is None else header.step,
            "num_parameters": sum(weight.numel() for weight in transcriber.model.parameters()),
            "device": str(transcriber.device),
        }

    def conventions(self) -> dict[str, Any]:
        """How songs are decoded."""
        transcriber = self._transcriber
        experiment = transcriber.experiment
        return asdict(self._choices) | {
            "segment_samples": experiment.audio.segment_samples,
            "sample_rate": experiment.audio.sample_rate,
            "overlap": transcriber.overlap,
            "pitch_check": transcriber.pitch_check,
            "batch_size": transcriber.batch_size,
            "precision": transcriber.precision,
        }

    def estimate(self, songs: Sequence[ScoredSong]) -> Iterator[tuple[int, Estimate | Exception]]:
        """Transcribe the songs as one stream of windows for each sub-task that is asked for."""
        places: dict[str | None, list[int]] = {}
        for place, song in enumerate(songs):
            asked = self._asked if self.subtask is not None else song.reference.subtask
            places.setdefault(asked, []).append(place)
        try:
            for asked, chosen in places.items():
                self._transcriber.subtask = asked
                for number, found in self._transcribe([songs[place] for place in chosen]):
                    yield chosen[number], found
        finally:
            self._transcriber.subtask = self._asked

    def _transcribe(self, songs: Sequence[ScoredSong]) -> Iterator[tuple[int, Estimate | Exception]]:
        hashes: dict[int, str] = {}
        broken: dict[int, Exception] = {}

        def sounds() -> Iterator[npt.NDArray[np.float32]]:
            for number, item in enumerate(songs):
                try:
                    audio = item.song.mix()
                except (ValueError, OSError) as error:
                    broken[number] = error
                    audio = np.zeros(0, dtype=np.float32)  # keeps the numbers of the songs in step
                hashes[number] = audio_hash(audio)
                yield audio

        for number, found in self._transcriber.transcribe_songs(sounds()):
            if number in broken:
                yield number, broken[number]
            elif isinstance(found, Exception):
                yield number, found
            else:
                yield (
                    number,
                    Estimate(
                        found.notes,
                        hashes[number],
                        found.num_windows,
                        found.errors,
                        found.class_names,
                    ),
                )


class FolderSystem:
    """MIDI files that some system wrote, named after the songs.

    Args:
        folder: holds ``SONG.mid`` or ``SET/SONG.mid``.
        experiment: whose task says which notes count.
        subtask: sub-task that says it for all songs; None takes the first each song allows.
        program: instrument of all pitched notes of the files, for systems that do not say it.

    Raises:
        ValueError: the folder is not there, or the task has no such sub-task.
    """

    def __init__(
        self, folder: Path, experiment: Experiment, subtask: str | None = None, program: int | None = None
    ) -> None:
        if not folder.is_dir():
            raise ValueError(f"--estimates {folder}: there is no such folder")
        self._folder = folder
        self.name = folder.name or str(folder)
        self.tokenizer = NoteTokenizer.from_experiment(experiment)
        self.subtask = subtask
        chosen_subtask(self.tokenizer, subtask)  # refuses an unknown one
        self._program = program

    def facts(self) -> dict[str, Any]:
        """Where the files are from."""
        return {"kind": "estimates", "folder": self._folder.name}

    def conventions(self) -> dict[str, Any]:
        """How the files are read."""
        return {"estimates_program": self._program}

    def estimate(self, songs: Sequence[ScoredSong]) -> Iterator[tuple[int, Estimate | Exception]]:
        """Read the file of each song; notes that the task does not transcribe are left out."""
        for number, item in enumerate(songs):
            file = self._file_of(item)
            if file is None:
                yield number, ValueError(f"no {item.song.song_id}.mid in {self._folder}")
                continue
            try:
                notes = notes_to_array(read_midi(file, program=self._program))
                targets = self.tokenizer.target_notes(notes, item.reference.subtask)
                found = Estimate(
                    array_to_notes(targets),
                    audio_hash(item.song.mix()),
                    file=file,
                    programs=Counter(note_programs(notes).tolist()),
                )
            except (ValueError, OSError) as error:
                yield number, error
                continue
            yield number, found

    def _file_of(self, item: ScoredSong) -> Path | None:
        for place in (self._folder / item.set_name, self._folder):
            for ending in MIDI_ENDINGS:
                candidate = place / f"{item.song.song_id}{ending}"
                if candidate.is_file():
                    return candidate
        return None


def audio_hash(audio: npt.NDArray[np.float32]) -> str:
    """sha256 (hex) of samples as little-endian float32."""
    return hashlib.sha256(np.ascontiguousarray(audio, dtype="<f4").tobytes()).hexdigest()


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
