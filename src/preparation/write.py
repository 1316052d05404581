"""Songs of one's own become a store: dealt out to splits, with a report of what became of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..config.presets import list_presets
from ..config.vocabularies import named_programs
from ..data.shares import FACT, SPLITS, Shares, filling_way_out, seed_before
from ..data.store import SongStore
from ..data.store_format import only_pitched_program
from ..notes.note import CHORUS_PROGRAM, DRUM_PROGRAM, SINGING_PROGRAM, NoteArray
from .building import BuildReport, NoSongError, build_store, print_outcome
from .plan import LoadedSong, SongPlan

SAMPLE_RATE = 16000
"""Of a store, where nothing else is said."""


@dataclass
class PreparationReport(BuildReport):
    """What became of the songs of a source; its songs go by their own names."""

    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of audio of each split."""
    notes: dict[str, int] = field(default_factory=dict)
    """Notes of each split."""
    programs: Counter[int] = field(default_factory=Counter)
    """Notes of each program (128: drums) in all splits."""
    unpaired: dict[str, str] = field(default_factory=dict)
    """Audio and MIDI files without a partner, by their names below the source, and what is missing."""


@dataclass(frozen=True)
class StoreSettings:
    """How songs of one's own are dealt out, read and written."""

    shares: Shares = field(default_factory=Shares)
    """A hash of its name decides on the split of a song, so a song stays there when others come or go."""
    flac: bool = False
    """Store FLAC instead of arrays of 16 bits."""
    overwrite: bool = False
    """Replace a store that is there."""
    sample_rate: int = SAMPLE_RATE
    """Of the store."""
    processes: int | None = None
    """That read; None: one per core, 16 at most, where there are songs enough."""
    progress: bool = True
    """Show a bar and the final table."""

    def for_songs(self, names: Sequence[str], out: Path) -> StoreSettings:
        """The same with the seed of the split that these songs get in the store ``out``: that asked for,
        else that of the store which is replaced, else the first; see :meth:`Shares.for_songs`."""
        return replace(self, shares=self.shares.for_songs(names, seed_before(out)))


DEFAULTS = StoreSettings()


NOTES_DROPPED = "notes after the end of the sound, dropped"
NOTES_CUT = "notes cut at the end of the sound"


def fit_notes(notes: NoteArray, seconds: float) -> tuple[NoteArray, int, int]:
    """Notes within audio of that length, how many were dropped, and how many cut at its end."""
    inside = notes["onset"] < seconds
    kept = notes[inside].copy()
    over = kept["offset"] > seconds
    kept["offset"][over] = seconds
    return kept, int((~inside).sum()), int(over.sum())


def check_name(name: str) -> None:
    """Refuse the name of a data preset for a store of one's own."""
    if name in list_presets():
        raise ValueError(f"the name {name} belongs to a data preset; choose another")


def check_program(program: int | None) -> None:
    """Refuse a program for all notes that is none."""
    if program is not None and not 0 <= program <= DRUM_PROGRAM:
        raise ValueError(f"program {program} must lie in 0 to 127, or be 128 for drums (--program)")


@dataclass(frozen=True)
class OwnSong:
    """A song that is to be read."""

    split: str
    load: Callable[[int], LoadedSong]
    """Reads it at a sample rate."""
    files: tuple[Path, ...]
    """What it is made of."""


def write_songs(
    source: Path,
    out: Path,
    name: str,
    songs: Mapping[str, OwnSong],
    report: PreparationReport,
    settings: StoreSettings,
    *,
    dealt_out: bool = True,
) -> None:
    """Make the store ``out`` of the songs; those that cannot be read are named in the report and left out.

    Args:
        source: where the songs come from, for messages.
        out: folder of the store to write.
        name: of the data set.
        songs: in the order of the store, by the name that messages call them.
        report: takes what became of them.
        settings: of reading and writing; their shares have a seed where songs were dealt out.
        dealt_out: whether the shares of the settings decided on the splits, not the source.

    Raises:
        ValueError: when none can be read, or the store exists and is not to be overwritten.
    """
    names = {song_id: key for key, song_id in song_ids(list(songs)).items()}
    plans = [
        SongPlan(song_id, (songs[key].split,), songs[key].load, songs[key].files)
        for song_id, key in names.items()
    ]
    try:
        build_store(
            out,
            name,
            plans,
            report=report,
            splits=SPLITS,
            processes=settings.processes,
            flac=settings.flac,
            overwrite=settings.overwrite,
            skip_broken=True,
            facts={FACT: asdict(settings.shares)} if dealt_out else None,
            console=Console(stderr=True, quiet=not settings.progress),
            sample_rate=settings.sample_rate,
        )
    except NoSongError as error:
        raise NoSongError(f"{source}: {str(error).removeprefix(f'{name}: ')}") from None
    report.broken = {names.get(key, key): reason for key, reason in report.broken.items()}
    store = SongStore.open(out)
    for split in report.splits:
        rows = store.index(split)
        report.seconds[split] = float(rows["num_samples"].sum() / settings.sample_rate)
        report.notes[split] = int(rows["num_notes"].sum())
        report.programs += store.notes_by_program(split)
    if settings.progress:
        print_report(report, list(songs), settings.shares if dealt_out else None)


def song_ids(names: Sequence[str]) -> dict[str, str]:
    """A folder name for each song: its name with ``__`` for ``/``, shortened and made unique."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        song_id = name.replace("/", "__").replace("\\", "_").strip()
        song_id = song_id.encode()[:150].decode("utf-8", "ignore").strip()
        if not song_id.strip(".") or song_id.casefold() in taken or len(name.encode()) > 150:
            digest = hashlib.sha256(name.encode()).hexdigest()[:10]
            song_id = f"{song_id.strip('.')}~{digest}"
        taken.add(song_id.casefold())
        ids[name] = song_id
    return ids


def print_report(report: PreparationReport, songs: Sequence[str], shares: Shares | None) -> None:
    """The table of the splits, what was left out, and a way to fill splits that are empty.

    Args:
        report: of the songs.
        songs: names of all songs, those left out too.
        shares: how they were dealt out; None where the source says each song's split.
    """
    console = Console(stderr=True)
    table = Table("split", "songs", "minutes", "notes", title="prepared")
    for split in report.seconds:
        table.add_row(
            split, str(report.splits[split]), f"{report.seconds[split] / 60:.1f}", str(report.notes[split])
        )
    console.print(table)
    if report.programs:
        console.print(_instruments(report.programs), highlight=False, soft_wrap=True)
    unpaired = [f"{file}: {missing}" for file, missing in report.unpaired.items()]
    print_outcome(console, report, {"files without a partner": unpaired})
    if shares is not None:
        if shares.seed:
            said = f"songs were dealt out to the splits with --seed {shares.seed}"
            console.print(said, highlight=False, soft_wrap=True)
        kept = [name for name in songs if name not in report.broken]
        _print_empty_splits(console, report, kept, shares)


def _instruments(programs: Counter[int]) -> str:
    """What plays the notes, and the way out where a melody's file does not say that it is sung."""
    unsaid = only_pitched_program(programs) not in (None, SINGING_PROGRAM, CHORUS_PROGRAM)
    hint = f"; the voice is program {SINGING_PROGRAM}: if these are sung, see --program" if unsaid else ""
    return f"notes by program: {named_programs(programs)}{hint}"


def _print_empty_splits(
    console: Console, report: PreparationReport, songs: Sequence[str], shares: Shares
) -> None:
    empty = [split for split in shares.wanted if not report.splits[split]]
    if empty:
        said = f"no song fell into {' and '.join(empty)}; {filling_way_out(songs, shares)}"
        console.print(said, highlight=False, soft_wrap=True)
