"""MusicNet (Thickstun et al. 2017) and the labels MusicNet-EM (Maman and Bermano 2022).

``{train,test}_data/ID.wav`` with ``{train,test}_labels/ID.csv``; in any folder ``musicnet_em`` MIDI files
whose names hold the ID; in any folder ``synth`` renderings ``ID*.wav`` with MIDI of the same name, or of
the same ID in ``musicnet_midis``. Times of the CSV files count samples at 44.1 kHz, its instruments count
from 1.

Songs are ``ID`` (labels of MusicNet), ``ID_em`` and ``ID_synth``. Splits of MT3 (Gardner et al. 2022) and
of MusicNet's authors (``thickstun``; ``ext`` is the larger test set); training splits hold the renderings
too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...notes import clean_notes
from ...notes.note import NOTE_DTYPE, NoteArray
from .corpus import Corpus, Found, audio_files, whole
from .labels import MidiLabels, naming, table_rows

LICENCE = "labels CC BY 4.0; recordings CC and public domain"
LABEL_RATE = 44100


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


MT3_VALIDATION = _ids("1733 1765 1790 1818 2160 2198 2289 2300 2308 2315 2336 2466 2477 2504 2611")
MT3_TEST = _ids("1729 1776 1813 1893 2118 2186 2296 2431 2432 2487 2497 2501 2507 2537 2621")
THICKSTUN_TEST = _ids("1819 2303 2382")
THICKSTUN_TEST_EXTENDED = _ids("1759 1819 2106 2191 2298 2303 2382 2416 2556 2628")

SYNTH_SPLITS = ("train_mt3_synth", "validation_mt3_synth")
SPLITS = (
    *("train_mt3", "validation_mt3_acoustic", "test_mt3_acoustic", "train_thickstun"),
    *("test_thickstun", "test_thickstun_ext", "train_mt3_em", "validation_mt3_em", "test_mt3_em"),
    *("train_thickstun_em", "test_thickstun_em", "test_thickstun_ext_em", *SYNTH_SPLITS),
)


@dataclass(frozen=True)
class CsvLabels:
    """Labels of one of MusicNet's CSV files; calling it reads them."""

    path: Path

    def __call__(self) -> NoteArray:
        """The notes, overlaps of one instrument's pitch ended."""
        names = ("start_time", "end_time", "instrument", "note")
        with naming(self.path):
            rows = [tuple(int(row[name]) for name in names) for row in table_rows(self.path, names)]
        notes = [
            (start / LABEL_RATE, end / LABEL_RATE, pitch, instrument - 1, 1, False)
            for start, end, instrument, pitch in rows
        ]
        return clean_notes(np.array(notes, dtype=NOTE_DTYPE))


def find(source: Path) -> Found:
    """Recordings with either kind of labels, and renderings."""
    found = Found()
    sounds = {
        path.stem: path
        for path in audio_files(source)
        if re.fullmatch(r"\d{4}", path.stem) and path.parent.name in ("train_data", "test_data")
    }
    tables = {
        path.stem: path
        for path in source.rglob("*.csv")
        if path.parent.name in ("train_labels", "test_labels")
    }
    em, midis = _midis(source, "musicnet_em"), _midis(source, "musicnet_midis")
    for song, sound in sorted(sounds.items()):
        meta = {"source": f"MusicNet/{song}", "licence": LICENCE}
        if song in tables:
            splits = _splits(song, "_acoustic", "")
            found.add(
                song, splits, [whole("mix", sound)], CsvLabels(tables[song]), [sound, tables[song]], **meta
            )
        if song in em:
            labels = MidiLabels(em[song], drums=False)
            found.add(
                f"{song}_em",
                _splits(song, "_em", "_em"),
                [whole("mix", sound)],
                labels,
                [sound, em[song]],
                **meta,
            )
    if not em and sounds:
        found.remarks.append(
            "no folder musicnet_em with MIDI files: the splits *_em hold no recordings, "
            "which the presets musicnet_*_em need"
        )
    _add_renderings(source, midis, found)
    return found


def _splits(song: str, mt3_ending: str, ending: str) -> list[str]:
    """Splits of a recording; ``ending`` is of all names but the evaluation splits of MT3."""
    if song in MT3_VALIDATION:
        splits = [f"validation_mt3{mt3_ending}"]
    elif song in MT3_TEST:
        splits = [f"test_mt3{mt3_ending}"]
    else:
        splits = [f"train_mt3{ending}"]
    if song not in THICKSTUN_TEST_EXTENDED:
        splits.append(f"train_thickstun{ending}")
    else:
        splits.append(f"test_thickstun_ext{ending}")
        if song in THICKSTUN_TEST:
            splits.append(f"test_thickstun{ending}")
    return splits


def _add_renderings(source: Path, midis: dict[str, Path], found: Found) -> None:
    renderings = [path for path in audio_files(source) if path.parent.name == "synth"]
    for sound in renderings:
        song = _song_of(sound)
        own = [path for ending in (".mid", ".midi") if (path := sound.with_suffix(ending)).is_file()]
        midi = own[0] if own else midis.get(song)
        if not song or midi is None:
            found.remarks.append(f"{sound}: no MIDI file of that ID; left out")
            continue
        if song in MT3_VALIDATION:
            splits = ["validation_mt3_synth"]
        elif song in MT3_TEST:
            splits = []
        else:
            splits = ["train_mt3_synth", "train_mt3", "train_mt3_em"]
        if song not in THICKSTUN_TEST_EXTENDED:
            splits += ["train_thickstun", "train_thickstun_em"]
        if splits:
            meta = {"source": f"MusicNet/synth/{sound.name}", "licence": LICENCE}
            labels = MidiLabels(midi, drums=False)
            found.add(f"{song}_synth", splits, [whole("mix", sound)], labels, [sound, midi], **meta)
    if not renderings:
        found.remarks.append(
            "no folder synth with renderings of the MIDI files: the splits *_synth are empty"
        )


def _midis(source: Path, folder: str) -> dict[str, Path]:
    """ID to MIDI file of the files below folders of that name."""
    paths = [path for parent in source.rglob(folder) for path in parent.rglob("*.mid*")]
    return {_song_of(path): path for path in sorted(paths) if _song_of(path)}


def _song_of(path: Path) -> str:
    found = re.search(r"(?<!\d)\d{4}(?!\d)", path.stem)
    return found[0] if found else ""


_RECORDINGS = {
    "validation_mt3_acoustic": 15,
    "test_mt3_acoustic": 15,
    "test_thickstun": 3,
    "test_thickstun_ext": 10,
}
_EM = {"validation_mt3_em": 15, "test_mt3_em": 15, "test_thickstun_em": 3, "test_thickstun_ext_em": 10}
_SYNTH = {"train_mt3_synth": 300, "validation_mt3_synth": 15}

CORPUS = Corpus(
    "musicnet",
    "MusicNet",
    LICENCE,
    find,
    editions=(
        {**_RECORDINGS, "train_mt3": 300, "train_thickstun": 320},
        {
            **_RECORDINGS,
            **_EM,
            "train_mt3": 300,
            "train_thickstun": 320,
            "train_mt3_em": 293,
            "train_thickstun_em": 313,
        },
        {
            **_RECORDINGS,
            **_EM,
            **_SYNTH,
            "train_mt3": 600,
            "train_thickstun": 640,
            "train_mt3_em": 593,
            "train_thickstun_em": 633,
        },
    ),
    splits=SPLITS,
)
