"""A folder of audio and MIDI files of the same names becomes a store."""

from __future__ import annotations

import hashlib
import os
import unicodedata
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..audio import is_audio_file, looks_like_audio, read_audio
from ..config.presets import list_presets
from ..data.store import StoreWriter
from ..data.store_format import to_int16
from ..notes import read_midi
from ..notes.note import NoteArray, note_programs, notes_to_array

MIDI_SUFFIXES = (".mid", ".midi")
TRANSCRIBED = "_transcribed"
"""Ending of the names of transcriptions that lie beside their sound (``ENDING`` of ``inference.predict``)."""
SPLITS = ("train", "validation", "test")
SHOWN_PROBLEMS = 20
"""Problems printed one by one; the rest is counted."""


@dataclass(frozen=True)
class Pair:
    """An audio file and its MIDI file."""

    name: str
    """Path below the source folder without suffix, ``/`` between folders, in NFC."""
    audio: Path
    midi: Path


@dataclass
class PreparationReport:
    """What became of the files of a folder."""

    songs: Counter[str] = field(default_factory=Counter)
    """Songs of each split."""
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0.0))
    """Seconds of audio of each split."""
    notes: Counter[str] = field(default_factory=Counter)
    """Notes of each split."""
    notes_dropped: int = 0
    """Notes that start after the end of their audio."""
    notes_cut: int = 0
    """Notes that were cut at the end of their audio."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Name of each song that was left out, and why."""
    remarks: list[str] = field(default_factory=list)
    """What was wrong with songs that were kept."""
    unpaired: list[str] = field(default_factory=list)
    """Audio and MIDI files without a partner."""


def prepare_folder(
    source: Path,
    out: Path,
    name: str,
    *,
    validation_share: float = 0.1,
    test_share: float = 0.1,
    seed: int = 0,
    licence: str = "",
    octave_unknown: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    sample_rate: int = 16000,
) -> PreparationReport:
    """Make the store ``out`` from the audio and MIDI files in ``source`` and all folders below it.

    A pair is an audio file (known by its content, any format libsndfile reads) and a MIDI file of the same
    name in the same folder. Each becomes a song with one stem "mix". Notes that start after the end of the
    audio are dropped, notes that sound beyond it are cut there. Files that cannot be read are reported and
    skipped. The same folder, seed and shares give the same bytes.

    Args:
        source: folder to read.
        out: folder of the store to write.
        name: name of the data set.
        validation_share: probability of a song to go to ``validation``; a hash of the name decides, so a
            song stays in its split when others come or go.
        test_share: the same for ``test``.
        seed: another seed, another split.
        licence: of the recordings, noted in the store.
        octave_unknown: the absolute octave of the notes is not reliable.
        overwrite: replace a store that is there.
        progress: show a bar and the final table.
        sample_rate: of the store.

    Raises:
        ValueError: when there is no folder, no pair, or nothing in it can be read.
    """
    source = Path(source)
    if not source.is_dir():
        raise ValueError(f"{source}: is no folder")
    if name in list_presets():
        raise ValueError(f"the name {name} belongs to a data preset; choose another")
    if validation_share < 0 or test_share < 0 or validation_share + test_share >= 1:
        raise ValueError(
            f"validation share {validation_share} and test share {test_share} must be 0 or more and leave "
            "something for training"
        )
    report = PreparationReport()
    pairs = find_pairs(source, report)
    if not pairs:
        raise ValueError(
            f"{source}: no pair of audio and MIDI found; put each song.mid beside a song.wav (flac, "
            f"mp3, ogg) of the same name ({len(report.unpaired)} files have no partner)"
        )
    console = Console(stderr=True, quiet=not progress)
    columns = (TextColumn("preparing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    ids = _song_ids(pairs)
    with (
        StoreWriter(out, name, sample_rate, overwrite=overwrite) as writer,
        Progress(*columns, console=console, disable=not progress) as bar,
    ):
        for split in SPLITS:
            writer.add_split(split)
        task = bar.add_task("", total=len(pairs))
        for pair in pairs:
            split = split_of(pair.name, seed, validation_share, test_share)
            try:
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    stem, notes = _read_pair(pair, sample_rate, report)
            except (ValueError, OSError) as error:
                report.skipped[pair.name] = str(error)
            else:
                report.remarks += [str(item.message) for item in said]
                programs = sorted(set(note_programs(notes).tolist()))
                meta = {"source": pair.name, "licence": licence, "octave_unknown": octave_unknown}
                writer.add_song(split, ids[pair.name], stem[None], [programs], ["mix"], notes, meta)
                report.songs[split] += 1
                report.seconds[split] += len(stem) / sample_rate
                report.notes[split] += len(notes)
            bar.advance(task)
        if not report.songs:
            lines = "\n".join(
                f"  {key}: {value}" for key, value in list(report.skipped.items())[:SHOWN_PROBLEMS]
            )
            raise ValueError(f"{source}: none of the {len(pairs)} pairs can be read:\n{lines}")
    kept = [pair.name for pair in pairs if pair.name not in report.skipped]
    _print_report(console, report, kept, validation_share, test_share)
    return report


def find_pairs(source: Path, report: PreparationReport) -> list[Pair]:
    """All pairs below ``source``, sorted by name; files without a partner go into the report."""
    midis: dict[str, list[Path]] = {}
    others: dict[str, list[Path]] = {}
    for folder, folders, files in os.walk(source):
        folders.sort()
        for file in sorted(files):
            path = Path(folder) / file
            if file.startswith("."):
                continue
            name = _readable(path.relative_to(source).with_suffix("").as_posix())
            if _is_transcription(path, files):
                report.remarks.append(f"{path}: left out, a transcription that predict.py wrote")
                continue
            table = midis if path.suffix.lower() in MIDI_SUFFIXES else others
            table.setdefault(name, []).append(path)
    pairs = []
    for name, found in sorted(midis.items()):
        audio = [path for path in others.pop(name, []) if is_audio_file(path) or looks_like_audio(path)]
        if not audio:
            report.unpaired += [path.name for path in found]
            continue
        pairs.append(Pair(name, audio[0], found[0]))
        report.remarks += [
            f"{path}: left out, {name} has another file of its kind already" for path in audio[1:] + found[1:]
        ]
    report.unpaired += [path.name for paths in others.values() for path in paths if looks_like_audio(path)]
    return pairs


def split_of(name: str, seed: int, validation_share: float, test_share: float) -> str:
    """Split of a song: a stable hash of its name as a number in [0, 1), against the shares."""
    digest = hashlib.sha256(f"{seed}\n{unicodedata.normalize('NFC', name)}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < test_share:
        return "test"
    return "validation" if place < test_share + validation_share else "train"


def seed_for(
    names: Sequence[str], wanted: Sequence[str], validation_share: float, test_share: float
) -> int | None:
    """The smallest seed up to 1000 that puts a song into each of the splits ``wanted``; None without one."""
    for seed in range(1001):
        if set(wanted) <= {split_of(name, seed, validation_share, test_share) for name in names}:
            return seed
    return None


def fit_notes(notes: NoteArray, seconds: float) -> tuple[NoteArray, int, int]:
    """Notes within audio of that length, how many were dropped, and how many cut at its end."""
    inside = notes["onset"] < seconds
    kept = notes[inside].copy()
    over = kept["offset"] > seconds
    kept["offset"][over] = seconds
    return kept, int((~inside).sum()), int(over.sum())


def _read_pair(
    pair: Pair, sample_rate: int, report: PreparationReport
) -> tuple[npt.NDArray[np.int16], NoteArray]:
    notes = notes_to_array(read_midi(pair.midi))
    audio = read_audio(pair.audio, sample_rate)
    if not len(audio):
        raise ValueError(f"{pair.audio}: holds no samples")
    stem = to_int16(audio)
    notes, dropped, cut = fit_notes(notes, len(stem) / sample_rate)
    report.notes_dropped += dropped
    report.notes_cut += cut
    if dropped:
        report.remarks.append(
            f"{pair.midi}: {dropped} notes start after the end of {pair.audio.name} and are dropped"
        )
    return stem, notes


def _readable(name: str) -> str:
    """NFC; bytes that are no UTF-8 become replacement characters."""
    return unicodedata.normalize("NFC", name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _is_transcription(path: Path, files: list[str]) -> bool:
    """Whether ``path`` is what predict.py writes beside a song of its folder: ``song_transcribed.mid``."""
    own = path.stem.removesuffix(TRANSCRIBED)
    return own != path.stem and any(Path(file).stem == own for file in files)


def _song_ids(pairs: list[Pair]) -> dict[str, str]:
    """A folder name for each pair: its path with ``__`` between folders, shortened and made unique."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for pair in pairs:
        song_id = pair.name.replace("/", "__").replace("\\", "_").strip()
        song_id = song_id.encode()[:150].decode("utf-8", "ignore").strip()
        if not song_id.strip(".") or song_id.casefold() in taken or len(pair.name.encode()) > 150:
            digest = hashlib.sha256(pair.name.encode()).hexdigest()[:10]
            song_id = f"{song_id.strip('.')}~{digest}"
        taken.add(song_id.casefold())
        ids[pair.name] = song_id
    return ids


def _print_report(
    console: Console, report: PreparationReport, songs: list[str], validation_share: float, test_share: float
) -> None:
    table = Table("split", "songs", "minutes", "notes", title="prepared")
    for split in SPLITS:
        table.add_row(
            split, str(report.songs[split]), f"{report.seconds[split] / 60:.1f}", str(report.notes[split])
        )
    console.print(table)
    for title, lines in (
        ("skipped", [f"{name}: {reason}" for name, reason in report.skipped.items()]),
        ("remarks", report.remarks),
        ("files without a partner", report.unpaired),
    ):
        if lines:
            console.print(f"{title}: {len(lines)}")
            for line in lines[:SHOWN_PROBLEMS]:
                console.print(f"  {escape(line)}", highlight=False)
            if len(lines) > SHOWN_PROBLEMS:
                console.print(f"  and {len(lines) - SHOWN_PROBLEMS} more")
    if report.notes_dropped or report.notes_cut:
        console.print(
            f"notes after the end of the audio: {report.notes_dropped} dropped; "
            f"notes cut at the end: {report.notes_cut}"
        )
    wanted = [s for s, p in zip(SPLITS, (1.0, validation_share, test_share), strict=True) if p > 0]
    empty = [split for split in wanted if not report.songs[split]]
    if not empty:
        return
    way_out = "prepare again with --overwrite and larger shares (--validation-share, --test-share)"
    if len(songs) < len(wanted):
        way_out = f"{len(songs)} songs cannot fill {len(wanted)} splits: add songs"
        if test_share > 0 and len(songs) > 1:
            way_out += ", or prepare again with --overwrite --test-share 0"
    elif (seed := seed_for(songs, wanted, validation_share, test_share)) is not None:
        way_out = f"prepare again with the same shares and --overwrite --seed {seed}, which fills all"
    console.print(f"no song fell into {' and '.join(empty)}; {way_out}", highlight=False, soft_wrap=True)
