"""The result of a test: what was scored, how, and what came out; as JSON and CSV.

``result.schema.json`` beside this file says what the JSON holds.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..config.names import counted
from ..data.strict_json import read_json_object
from ..evaluation import Metric, NoteErrors, PairedDifference, SongScores, add_errors
from ..evaluation import compare_songs as compare_scores
from ..evaluation.errors import KINDS
from ..inference.files import atomic_path

FORMAT = "amt-test"
VERSION = 1
COMPARISON_FORMAT = "amt-comparison"
COMPARISON_FILE = "comparison.json"
SCHEMA = Path(__file__).with_name("result.schema.json")


@dataclass(frozen=True)
class SongResult:
    """One song of a test."""

    set_name: str
    song_id: str
    audio_sha256: str
    """Of the mix as float32 samples, as the network hears it."""
    seconds: float
    num_windows: int
    """Windows that were decoded; 0 for estimates of other systems."""
    num_notes: int
    """Reference notes, drums included."""
    num_estimated: int
    num_malformed: int
    """Malformed parts of token sequences, which were dropped."""
    midi: str
    """MIDI file of the estimate, seen from the folder of the result; empty when there is none."""
    scores: SongScores
    errors: NoteErrors


@dataclass(frozen=True)
class Failure:
    """A song that could not be scored."""

    song_id: str
    reason: str


@dataclass(frozen=True)
class ShiftRow:
    """The score of all songs of a set with the labels moved."""

    classes: str
    """The class whose notes were moved and scored, or ``all``."""
    semitones: int
    seconds: float
    onset_f: float
    """F-measure of the counts of all songs: of pitched notes, and in a shift in time of drums with them."""
    is_best: bool


@dataclass(frozen=True)
class SetResult:
    """One evaluation set of a test."""

    name: str
    store: str
    """Name of the data set."""
    split: str
    recorded_sha256: str
    """Hash of the split's audio and notes that the store's writer noted."""
    labels_sha256: str
    """Version of the labels: hash over all notes of the songs that were scored."""
    classes: Mapping[str, Sequence[int]]
    """Classes scored one by one, with their programs."""
    failures: Sequence[Failure] = ()
    octave_shift: Sequence[ShiftRow] = ()
    label_shift: Sequence[ShiftRow] = ()
    remark: str = ""
    """What the scores do not say by themselves: why there are none, or none but 0; a sentence."""


def without_reference(songs: Collection[SongResult]) -> bool:
    """Whether there are songs, but not a single note to hold an estimate against."""
    return bool(songs) and not any(song.num_notes for song in songs)


@dataclass(frozen=True)
class TestResult:
    """Everything about one test."""

    __test__ = False  # pytest takes no class of this name for tests

    name: str
    """Name of the system: the checkpoint as it was named, or the folder of the estimates."""
    system: Mapping[str, Any]
    """Plain facts about the system."""
    conventions: Mapping[str, Any]
    """Plain facts about how it was scored."""
    sets: Sequence[SetResult]
    songs: Sequence[SongResult]
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def songs_of(self, set_name: str) -> list[SongResult]:
        """The songs of a set."""
        return [song for song in self.songs if song.set_name == set_name]

    def lacks_reference(self, set_name: str) -> bool:
        """Whether a set has songs, but not a single note to hold an estimate against."""
        return without_reference(self.songs_of(set_name))

    def errors_of(self, set_name: str) -> NoteErrors | None:
        """Where the notes of a set went; None without songs."""
        songs = self.songs_of(set_name)
        return add_errors([song.errors for song in songs]) if songs else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the result; NaN becomes None."""
        plain = {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "system": dict(self.system),
            "conventions": dict(self.conventions),
            "metrics": {key: asdict(metric) for key, metric in self.metrics.items()},
            "sets": [self._set_dict(item) for item in self.sets],
            "songs": [_song_dict(song) for song in self.songs],
        }
        cleaned: dict[str, Any] = without_nan(plain)
        return cleaned

    def _set_dict(self, item: SetResult) -> dict[str, Any]:
        songs = self.songs_of(item.name)
        errors = self.errors_of(item.name)
        return {
            **asdict(item),
            "classes": {name: list(programs) for name, programs in item.classes.items()},
            "num_songs": len(songs),
            "num_notes": sum(song.num_notes for song in songs),
            "num_estimated": sum(song.num_estimated for song in songs),
            "num_windows": sum(song.num_windows for song in songs),
            "num_malformed": sum(song.num_malformed for song in songs),
            "seconds": sum(song.seconds for song in songs),
            "errors": None if errors is None else errors.to_dict(),
        }


def _song_dict(song: SongResult) -> dict[str, Any]:
    return {
        "set": song.set_name,
        "song_id": song.song_id,
        "audio_sha256": song.audio_sha256,
        "seconds": song.seconds,
        "num_windows": song.num_windows,
        "num_notes": song.num_notes,
        "num_estimated": song.num_estimated,
        "num_malformed": song.num_malformed,
        "midi": song.midi,
        "errors": {**song.errors.counts, "wrong_end": song.errors.wrong_end},
        "scores": dict(song.scores.scores),
    }


def write_result(path: Path, result: TestResult) -> None:
    """Write the JSON of a result."""
    _write(path, json.dumps(result.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_songs(path: Path, result: TestResult) -> None:
    """Write a CSV with a row for each song: counts, errors, and a column for each score; empty for NaN."""
    keys = list(dict.fromkeys(key for song in result.songs for key in song.scores.scores))
    rows = []
    for song in result.songs:
        plain = _song_dict(song)
        errors, scores = plain.pop("errors"), plain.pop("scores")
        rows.append(plain | errors | {key: _cell(scores.get(key, math.nan)) for key in keys})
    columns = list(_SONG_COLUMNS) + keys
    _write(path, _csv_text(columns, rows))


_SONG_COLUMNS = (
    *("set", "song_id", "audio_sha256", "seconds", "num_windows", "num_notes", "num_estimated"),
    *("num_malformed", "midi", *KINDS, "wrong_end"),
)


@dataclass(frozen=True)
class StoredResult:
    """A result as far as a comparison needs it."""

    name: str
    scores: Mapping[tuple[str, str], Mapping[str, float]]
    """Scores of each song by (set, song id)."""
    audio: Mapping[tuple[str, str], str]
    """Hash of each song's audio."""
    labels: Mapping[str, str]
    """Hash of each set's reference notes."""
    conventions: Mapping[str, Any]


def stored_result(plain: Mapping[str, Any]) -> StoredResult:
    """What :meth:`TestResult.to_dict` gave, as far as a comparison needs it."""
    songs = {(str(song["set"]), str(song["song_id"])): song for song in plain["songs"]}
    return StoredResult(
        str(plain["name"]),
        {
            place: {key: math.nan if value is None else float(value) for key, value in song["scores"].items()}
            for place, song in songs.items()
        },
        {place: str(song["audio_sha256"]) for place, song in songs.items()},
        {str(item["name"]): str(item["labels_sha256"]) for item in plain["sets"]},
        dict(plain["conventions"]),
    )


def read_result(path: Path) -> StoredResult:
    """The songs of a result that :func:`write_result` wrote.

    Raises:
        ValueError: names the file and what is wrong with it.
    """
    plain = read_json_object(path)
    if plain.get("format") != FORMAT:
        raise ValueError(f"{path} is no result of test.py (its 'format' is {plain.get('format')!r})")
    if plain.get("version") != VERSION:
        raise ValueError(
            f"{path} is a result of version {plain.get('version')}, this version of amt reads {VERSION}; "
            "run test.py again"
        )
    try:
        return stored_result(plain)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({type(error).__name__}: {error}); run test.py again") from None


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same songs."""

    a: str
    b: str
    num_songs: int
    """Songs that both scored."""
    differences: Mapping[str, PairedDifference]
    """Name of a figure to B minus A."""
    remarks: Sequence[str] = ()
    """What makes the comparison less than fair, one sentence each."""


def compare_results(a: StoredResult, b: StoredResult) -> Comparison:
    """Hold B against A, on the songs that both scored.

    Raises:
        ValueError: when they have no song in common.
    """
    both = [song for song in a.scores if song in b.scores]
    if not both:
        raise ValueError(f"{a.name} and {b.name} have no song in common: score both on the same sets")
    remarks = []
    alone = len(set(a.scores) ^ set(b.scores))
    if alone:
        verbs = ("was", "is") if alone == 1 else ("were", "are")
        remarks.append(
            f"{counted(alone, 'song')} {verbs[0]} scored by one of the two only and {verbs[1]} left out"
        )
    other = [song[1] for song in both if a.audio[song] != b.audio[song]]
    if other:
        songs = counted(len(other), "song")
        remarks.append(f"the audio of {songs} differs between the two ({', '.join(other[:5])})")
    for name in sorted({place[0] for place in both}):
        if a.labels.get(name) != b.labels.get(name):
            remarks.append(f"the two were scored on different notes or songs of {name}")
    for key in ("task", "onset_tolerance", "offset_ratio", "offset_min_tolerance"):
        if a.conventions.get(key) != b.conventions.get(key):
            remarks.append(f"{key} differs: {a.conventions.get(key)} and {b.conventions.get(key)}")
    return Comparison(a.name, b.name, len(both), compare_scores(a.scores, b.scores), remarks)


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Write ``COMPARISON_FILE`` and ``comparison.csv``."""
    rows: dict[str, dict[str, Any]] = {
        key: {
            "difference": found.difference,
            "low": found.interval[0],
            "high": found.interval[1],
            "share_better": found.share_better,
            "num_songs": found.num_songs,
        }
        for key, found in comparison.differences.items()
    }
    plain = {
        "format": COMPARISON_FORMAT,
        "version": VERSION,
        "a": comparison.a,
        "b": comparison.b,
        "num_songs": comparison.num_songs,
        "remarks": list(comparison.remarks),
        "differences": rows,
    }
    text = json.dumps(without_nan(plain), indent=1, allow_nan=False, ensure_ascii=False)
    _write(folder / COMPARISON_FILE, text + "\n")
    columns = ["metric", "difference", "low", "high", "share_better", "num_songs"]
    cells = [
        {"metric": key} | {name: _cell(value) for name, value in row.items()} for key, row in rows.items()
    ]
    _write(folder / "comparison.csv", _csv_text(columns, cells))


def without_nan(value: Any) -> Any:
    """Plain values with None in place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _cell(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.10g}"


def _csv_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")
