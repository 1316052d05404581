"""The frame that the modules of the data sets fill: songs of stems with sound and notes."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from ...audio import looks_like_audio, read_audio
from ...audio.reading import Samples
from ...config.names import unknown_name
from ...data.songs import UNKNOWN_INSTRUMENTS
from ...data.store_format import to_int16
from ...notes.note import NoteArray, note_programs
from ..building import SHOWN_PROBLEMS, BuildReport, NoSongError, build_store, print_outcome
from ..plan import LoadedSong, SongPlan
from ..write import NOTES_CUT, NOTES_DROPPED, fit_notes
from . import CORPORA

Sound = Callable[[int], Samples]
"""Sound at a sample rate, float32 (samples,); a ``functools.partial``, so that it can be pickled."""
Labels = Callable[[], NoteArray]
"""Notes in seconds from the start of the sound; can be pickled."""
OTHERS_HEARD: Mapping[str, Any] = {"unannotated": [UNKNOWN_INSTRUMENTS]}
"""Facts of a song in which instruments sound that nobody wrote down."""


@dataclass(frozen=True)
class Stem:
    """A part of a song that can be heard on its own."""

    name: str
    sound: Sound
    programs: tuple[int, ...] | None = None
    """MIDI programs of it, 128 drums, empty for sound without notes; None: those of the song's notes."""


@dataclass
class Found:
    """What is in a folder."""

    songs: list[SongPlan] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Songs whose description cannot be read, and why."""
    remarks: list[str] = field(default_factory=list)
    """What the user should know: parts that are missing, files that fit nothing."""

    def add(
        self,
        song_id: str,
        splits: Iterable[str],
        stems: Sequence[Stem],
        labels: Labels,
        files: Iterable[Path],
        **meta: Any,
    ) -> None:
        """Add a song.

        Args:
            song_id: unique in the data set.
            splits: all it stands in.
            stems: its sound.
            labels: its notes.
            files: all that are read.
            meta: further facts of ``song.json``: ``source``, ``licence``, ``unannotated``,
                ``octave_unknown``.
        """
        load = partial(load_song, tuple(stems), labels, meta)
        self.songs.append(SongPlan(song_id, tuple(splits), load, tuple(files)))


@dataclass(frozen=True)
class Corpus:
    """A published data set, and how its folder is read."""

    name: str
    """Of the store and the command."""
    title: str
    licence: str
    """As far as publicly known; noted in every song."""
    find: Callable[[Path], Found]
    """Songs below a folder; raises ``ValueError`` when the folder is not that of the data set."""
    editions: tuple[Mapping[str, int], ...] = ()
    """Songs of the splits of each published edition; any one is complete. A split that stands in others
    only has none."""
    splits: tuple[str, ...] = ()
    """Splits that exist even without songs."""
    num_songs: int = 0
    """Songs of all splits, where those of each are not known."""


def get_corpus(name: str) -> Corpus:
    """The data set of that name (key of ``CORPORA``)."""
    if name not in CORPORA:
        raise unknown_name("data set", name, CORPORA)
    corpus = importlib.import_module(f".{name}", __package__).CORPUS
    assert isinstance(corpus, Corpus)
    assert corpus.name == name
    return corpus


def prepare_corpus(
    name: str,
    source: Path,
    out: Path,
    *,
    processes: int | None = None,
    limit: int | None = None,
    flac: bool = False,
    overwrite: bool = False,
    skip_broken: bool = False,
    progress: bool = True,
) -> BuildReport:
    """Make the store ``out`` of the data set ``name`` that lies in ``source`` as it was published.

    Args:
        name: key of ``CORPORA``.
        source: folder of the data set, or one above it.
        out: folder of the store.
        processes: that read; None is one for each core, at most 16.
        limit: only the first so many songs of each split, for a try.
        flac: store FLAC.
        overwrite: replace a store that is there.
        skip_broken: make the store without songs that cannot be read.
        progress: show a bar and a summary.

    Raises:
        ValueError: when nothing of the data set is in ``source``, or songs are broken (all are listed).
    """
    corpus = get_corpus(name)
    source = Path(source)
    if not source.is_dir():
        raise ValueError(f"{source}: is no folder")
    found = corpus.find(source)
    if not found.songs and not found.broken:
        raise NoSongError(f"{source}: no song of {corpus.title} found; expected {CORPORA[name]}")
    _refuse_two_copies(source, found.songs)
    console = Console(stderr=True, quiet=not progress)
    for remark in found.remarks[:SHOWN_PROBLEMS]:
        console.print(f"{name}: {escape(remark)}", highlight=False, soft_wrap=True)
    songs = found.songs
    facts: dict[str, Any] = {"title": corpus.title, "licence": corpus.licence}
    if limit is None:
        for line in count_songs(corpus, songs):
            console.print(f"warning: {name}: {line}", highlight=False, soft_wrap=True)
    else:
        songs = first_songs(songs, limit)
        facts["limit"] = limit
    report = build_store(
        out,
        name,
        songs,
        report=BuildReport(broken=found.broken if limit is None else {}),
        splits=corpus.splits,
        processes=processes,
        flac=flac,
        overwrite=overwrite,
        skip_broken=skip_broken,
        facts=facts,
        console=console,
    )
    _print_report(console, name, report)
    return report


def load_song(stems: Sequence[Stem], labels: Labels, meta: Mapping[str, Any], sample_rate: int) -> LoadedSong:
    """Read the sound and notes of a song; shorter stems are filled up with silence.

    Raises:
        ValueError: for files that cannot be read, sound without samples, and notes that all lie outside it.
    """
    notes = labels()
    sounds = [to_int16(stem.sound(sample_rate)) for stem in stems]
    length = max(len(sound) for sound in sounds)
    if not length:
        raise ValueError(f"{meta['source']}: the sound holds no samples")
    audio = np.stack([np.pad(sound, (0, length - len(sound))) for sound in sounds])
    fitted, dropped, cut = fit_notes(notes, length / sample_rate)
    if len(notes) and not len(fitted):
        raise ValueError(
            f"{meta['source']}: all its notes ({len(notes)}) start after the end of the sound "
            f"({length / sample_rate:.1f} s): the sound and the notes are not of one song"
        )
    noted = tuple(sorted(set(note_programs(fitted).tolist())))
    counts = +Counter({NOTES_DROPPED: dropped, NOTES_CUT: cut})
    programs = [noted if stem.programs is None else stem.programs for stem in stems]
    return LoadedSong(audio, programs, [stem.name for stem in stems], fitted, meta, counts)


def whole(name: str, path: Path, programs: tuple[int, ...] | None = None) -> Stem:
    """A stem that is one file."""
    return Stem(name, partial(read_sound, path), programs)


def read_sound(path: Path, sample_rate: int) -> Samples:
    """A whole file; :func:`read_audio` with its arguments in the order of :data:`Sound`."""
    return read_audio(path, sample_rate)


def audio_files(folder: Path) -> list[Path]:
    """All audio files (by suffix) below a folder, sorted; hidden ones are left out."""
    return sorted(
        path for path in folder.rglob("*") if looks_like_audio(path) and not path.name.startswith(".")
    )


def first_songs(songs: Sequence[SongPlan], limit: int) -> list[SongPlan]:
    """The songs that are among the first ``limit`` of one of their splits."""
    seen: Counter[str] = Counter()
    kept = []
    for song in songs:
        if any(seen[split] < limit for split in song.splits):
            kept.append(song)
        seen.update(song.splits)
    return kept


def count_songs(corpus: Corpus, songs: Sequence[SongPlan]) -> list[str]:
    """What is missing from the edition that the songs come nearest to, in words."""
    found: Counter[str] = Counter(split for song in songs for split in song.splits)
    counted = sorted({split for edition in corpus.editions for split in edition}, key=corpus.splits.index)

    def distance(edition: Mapping[str, int]) -> tuple[int, int]:
        """Splits that are not of the edition, then songs that are missing or too many."""
        foreign = sum(found[split] > 0 and split not in edition for split in counted)
        return foreign, sum(abs(found[split] - edition.get(split, 0)) for split in counted)

    if corpus.num_songs and len(songs) != corpus.num_songs:
        return [f"found {len(songs):,} songs of {corpus.num_songs:,}"]
    nearest: Mapping[str, int] = min(corpus.editions, key=distance, default={})
    return [
        f"{split}: found {found[split]:,} songs of {nearest.get(split, 0):,}"
        for split in counted
        if found[split] != nearest.get(split, 0)
    ]


def _refuse_two_copies(source: Path, songs: Sequence[SongPlan]) -> None:
    """Raise for a folder that holds a song twice."""
    seen: dict[str, SongPlan] = {}
    for song in songs:
        other = seen.setdefault(song.song_id, song)
        if other is not song:
            files = " and ".join(str(plan.files[0]) for plan in (other, song))
            raise ValueError(
                f"{source}: {song.song_id} is there twice, {files}; give a folder that holds one copy"
            )


def _print_report(console: Console, name: str, report: BuildReport) -> None:
    text = ", ".join(f"{split} {count:,}" for split, count in report.splits.items())
    console.print(f"{name}: {text}", highlight=False, soft_wrap=True)
    print_outcome(console, report)
