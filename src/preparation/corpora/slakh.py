"""Slakh2100 (Manilow et al. 2019): rendered MIDI files, a FLAC file and a MIDI file for each stem.

``{train,validation,test}/TrackXXXXX/{metadata.yaml, stems/SXX.flac, MIDI/SXX.mid}``, of the original or
the redux edition (without the doubled songs in ``omitted``), as FLAC or WAV. Folders outside of a split,
as in BabySlakh, are split by their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ...data.shares import split_of
from ...notes.note import DRUM_PROGRAM
from .corpus import Corpus, Found, Labels, Stem, whole
from .labels import MidiLabels, joined_labels

SPLITS = ("train", "validation", "test")
BASSES = range(32, 40)
SOUNDS_AS_WRITTEN = "scarbee_jay_bass_slap_both.nkm"
"""The one bass instrument of the renderings that plays at the pitch of its MIDI; the others sound an octave
below."""
LICENCE = "CC BY 4.0"


def find(source: Path) -> Found:
    """All songs but those in ``omitted``."""
    found = Found()
    incomplete = 0
    for metadata in sorted(source.rglob("metadata.yaml")):
        folder = metadata.parent
        parents = [part for part in folder.relative_to(source.parent).parts[:-1] if part in SPLITS]
        if "omitted" in folder.relative_to(source).parts:
            continue
        split = parents[-1] if parents else split_of(folder.name, 0, 0.1, 0.1)
        try:
            stems, labels, files, left = _stems(folder, metadata)
        except ValueError as error:
            found.broken[folder.name] = str(error)
            continue
        incomplete += left
        meta = {"source": f"Slakh2100/{split}/{folder.name}", "licence": LICENCE}
        found.add(folder.name, (split,), stems, joined_labels(labels), files, **meta)
    if incomplete:
        found.remarks.append(f"{incomplete} stems have no sound or no MIDI file and are left out")
    return found


def _stems(folder: Path, metadata: Path) -> tuple[list[Stem], list[Labels], list[Path], int]:
    try:
        told = yaml.load(metadata.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        described: dict[str, dict[str, Any]] = dict(told["stems"])
        programs = {name: int(facts["program_num"]) for name, facts in described.items()}
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{metadata}: is no metadata of a song ({error})") from None
    stems: list[Stem] = []
    labels: list[Labels] = []
    files = [metadata]
    left = 0
    for name, facts in sorted(described.items()):
        midi = folder / "MIDI" / f"{name}.mid"
        sounds = [folder / "stems" / f"{name}{ending}" for ending in (".flac", ".wav")]
        sound = next((path for path in sounds if path.is_file()), sounds[0])
        promised = facts.get("audio_rendered", True) and facts.get("midi_saved", True)
        # One file of a stem that is missing is a fault of the copy; sound effects have neither.
        if not promised or not (sound.is_file() or midi.is_file()):
            left += 1
            continue
        drums = bool(facts.get("is_drum", False))
        program = DRUM_PROGRAM if drums else programs[name]
        octave_low = program in BASSES and SOUNDS_AS_WRITTEN not in str(facts.get("plugin_name", ""))
        labels.append(MidiLabels(midi, None if drums else program, drums, transpose=-12 if octave_low else 0))
        stems.append(whole(name, sound, (program,)))
        files += [sound, midi]
    if not stems:
        raise ValueError(f"{metadata}: no stem has both sound and MIDI")
    return stems, labels, files, left


CORPUS = Corpus(
    "slakh",
    "Slakh2100",
    LICENCE,
    find,
    editions=(
        {"train": 1289, "validation": 270, "test": 151},
        {"train": 1500, "validation": 375, "test": 225},
    ),
    splits=SPLITS,
)
