"""MIDI files of Geerdes beside recordings of the songs; a collection that is not public.

``NAME.mid`` beside ``NAME.wav`` (or another format), and, for the splits ``*_sep``, ``NAME_vocals.*`` and
``NAME_accompaniment.*`` of a separation. Tracks named after vocals are the lead voice, after backing
vocals the backing voices; channel 10 is drums; else the MIDI files say the programs.

``all`` holds all mixtures, ``all_sep`` the voices and the accompaniments as songs of their own. Half of
the songs, drawn by a hash of the names, is ``train`` (``train_sep``), the other half ``validation``
(``validation_sep``).
"""

from __future__ import annotations

from pathlib import Path

from ...data.shares import split_of
from .corpus import Corpus, Found, audio_files, whole
from .pairs import id_of, pairs_in
from .track_names import BACKING, LEAD, NamedTrackLabels

LICENCE = "not public"
KEYWORDS = (*BACKING, *LEAD)
SEPARATED = {"vocals": True, "accompaniment": False}
"""Ending of the names of separated sounds, and whether voices are heard."""


def find(source: Path) -> Found:
    """All pairs, and what a separation made of them."""
    found = Found()
    sounds = {path.with_suffix(""): path for path in audio_files(source)}
    whole_only = 0
    for pair in pairs_in(source, found, tuple(f"_{ending}" for ending in SEPARATED)):
        part = split_of(pair.name, 0, 0.5, 0.0)
        meta = {"source": f"Geerdes/{pair.name}", "licence": LICENCE}
        labels = NamedTrackLabels(pair.midi, KEYWORDS)
        files = [pair.audio, pair.midi]
        found.add(id_of(pair), ("all", part), [whole("mix", pair.audio)], labels, files, **meta)
        bare = pair.audio.with_suffix("")
        parts = {ending: sounds.get(bare.with_name(f"{bare.name}_{ending}")) for ending in SEPARATED}
        whole_only += None in parts.values()
        for ending, sound in parts.items():
            if sound is not None:
                own = NamedTrackLabels(pair.midi, KEYWORDS, SEPARATED[ending])
                splits = ("all_sep", f"{part}_sep")
                stems = [whole(ending, sound)]
                found.add(f"{id_of(pair)}_{ending}", splits, stems, own, [sound, pair.midi], **meta)
    if whole_only:
        found.remarks.append(f"{whole_only} songs lack *_vocals or *_accompaniment for the splits *_sep")
    return found


CORPUS = Corpus(
    "geerdes",
    "Geerdes",
    LICENCE,
    find,
    splits=("all", "train", "validation", "all_sep", "train_sep", "validation_sep"),
)
