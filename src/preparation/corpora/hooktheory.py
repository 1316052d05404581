"""HookTheory as Sheet Sage publishes it (Donahue et al. 2022): melodies of excerpts of popular songs.

``Hooktheory.json.gz`` (or ``.json``): for each excerpt its melody in beats, the time of the beats in a
video (``alignment``, the refined one where there is one) and a split. The sound, not published, lies in
any folder under the video's YouTube ID, ``ID.mp3`` or another format.

A song is the excerpt alone. Its melody is that of a lead voice (program 100) among instruments that
nobody wrote down, and its octave is not reliable.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...audio.reading import Samples, read_audio
from ...notes.note import SINGING_PROGRAM
from .corpus import OTHERS_HEARD, Corpus, Found, Stem, audio_files
from .singers import Row, VoiceLabels

LICENCE = "annotations CC BY-NC-SA 3.0; recordings under copyright"
SPLITS = {"TRAIN": "train", "VALID": "validation", "TEST": "test"}
MIDDLE_C = 60


@dataclass(frozen=True)
class Excerpt:
    """A part of a file; calling it reads it."""

    path: Path
    start: float
    stop: float
    """Seconds."""

    def __call__(self, sample_rate: int) -> Samples:
        """float32 (samples,)."""
        return read_audio(
            self.path, sample_rate, round(self.start * sample_rate), round(self.stop * sample_rate)
        )


def find(source: Path) -> Found:
    """All excerpts with melody, times and sound."""
    tables = sorted(source.rglob("Hooktheory*.json.gz")) or sorted(source.rglob("Hooktheory*.json"))
    if not tables:
        raise ValueError(f"{source}: no Hooktheory.json.gz found; give the folder that holds it")
    sounds = {path.stem: path for path in audio_files(source)}
    found = Found()
    left: Counter[str] = Counter()
    strange: list[str] = []
    for song_id, entry in sorted(_read_table(tables[0]).items()):
        try:
            video, split = str(entry["youtube"]["id"]), SPLITS[entry["split"]]
            melody = entry["annotations"].get("melody")
            if not melody or not entry.get("alignment"):
                left["have no melody or no times"] += 1
                continue
            start, stop, rows = _timed(entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            strange.append(f"{song_id} ({error!r})")
            continue
        if video not in sounds:
            left["have no sound under their video's ID"] += 1
            continue
        sound = sounds[video]
        meta = {"source": f"HookTheory/{song_id}/{video}", "licence": LICENCE, "octave_unknown": True}
        stems = [Stem("mix", Excerpt(sound, start, stop), (SINGING_PROGRAM,))]
        labels = VoiceLabels(tables[0], tuple(rows))
        found.add(song_id, (split,), stems, labels, [sound], **meta, **OTHERS_HEARD)
    if strange:
        left[f"cannot be understood, such as {strange[0]},"] = len(strange)
    found.remarks += [f"{count:,} excerpts {why} and are left out" for why, count in left.items()]
    return found


def _read_table(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        told = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(told, dict):
        raise ValueError(f"{path}: is no object of excerpts")
    return told


def _timed(entry: dict[str, Any]) -> tuple[float, float, list[Row]]:
    """Start and end of an excerpt in its video, and its notes in seconds from its start."""
    aligned = entry["alignment"].get("refined") or entry["alignment"]["user"]
    beats, times = (np.array(aligned[name], dtype=float) for name in ("beats", "times"))
    if (
        len(beats) < 2
        or len(beats) != len(times)
        or not np.isfinite(np.diff(beats)).all()
        or not np.isfinite(np.diff(times)).all()
        or (np.diff(beats) <= 0).any()
        or (np.diff(times) <= 0).any()
    ):
        raise ValueError("beats and times do not rise together")
    last = float(entry["annotations"]["num_beats"])
    start, stop = (max(0.0, _seconds(beat, beats, times)) for beat in (0.0, last))
    rows = []
    for note in entry["annotations"]["melody"]:
        on, off = (_seconds(float(note[name]), beats, times) - start for name in ("onset", "offset"))
        pitch = MIDDLE_C + 12 * int(note["octave"]) + int(note["pitch_class"])
        if off > 0:
            rows.append((max(on, 0.0), off, float(pitch)))
    return start, stop, rows


def _seconds(beat: float, beats: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> float:
    """Time of a beat; before the first and after the last the tempo there goes on."""
    if beat < beats[0]:
        return float(times[0] - (beats[0] - beat) * (times[1] - times[0]) / (beats[1] - beats[0]))
    if beat > beats[-1]:
        return float(times[-1] + (beat - beats[-1]) * (times[-1] - times[-2]) / (beats[-1] - beats[-2]))
    return float(np.interp(beat, beats, times))


CORPUS = Corpus("hooktheory", "HookTheory", LICENCE, find, splits=tuple(SPLITS.values()))
