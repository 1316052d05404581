"""What the data sets of popular songs share: a numbered folder for each song, notes of the voice.

A folder whose name is the song's number, anywhere, holds

- ``Mixture.*`` (``mix``, ``audio`` or the number itself do too): the song as it was released,
- ``vocals.*`` (``Vocal``, ``voice``): the voice as a separation gives it, and
- ``accompaniment.*`` (``inst``, ``instrumental``, ``no_vocals``): the rest; without it, the mixture minus
  the voice.

Capital letters and the format do not matter. With a voice a song has two stems, and a twin ``N_vocal``
that is the voice alone; without one it is a mixture in which instruments sound that nobody wrote down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...audio.reading import Samples, read_audio
from ...config.names import listing
from ...data.strict_json import parse_json
from ...notes.note import SINGING_PROGRAM, NoteArray
from .corpus import OTHERS_HEARD, Found, Stem, audio_files, whole
from .labels import naming, pitched_notes, read_text

Row = tuple[float, float, float]
"""Onset and offset in seconds, MIDI pitch."""

MIXTURES = ("mixture", "mix", "audio")
VOICES = ("vocals", "vocal", "voice")
RESTS = ("accompaniment", "inst", "instrumental", "no_vocals")
VOICE = (SINGING_PROGRAM,)


@dataclass(frozen=True)
class VoiceLabels:
    """Notes of a voice that were read already; calling it checks and cleans them."""

    file: Path
    """Where they were read, for messages."""
    rows: tuple[Row, ...]

    def __call__(self) -> NoteArray:
        """The notes; raises ``ValueError`` for impossible ones."""
        with naming(self.file):
            return pitched_notes(self.rows, SINGING_PROGRAM)


@dataclass(frozen=True)
class Difference:
    """A mixture without one of its parts; calling it reads both."""

    mixture: Path
    part: Path

    def __call__(self, sample_rate: int) -> Samples:
        """float32 (samples,), as long as the shorter one."""
        mixture, part = (read_audio(path, sample_rate) for path in (self.mixture, self.part))
        length = min(len(mixture), len(part))
        return mixture[:length] - part[:length]


def read_note_table(path: Path) -> dict[int, tuple[Row, ...]]:
    """Song number to notes, of a JSON object ``{"1": [[onset, offset, pitch], ...]}``.

    Raises:
        ValueError: names the file and the song at fault.
    """
    told = parse_json(read_text(path), path)
    if not isinstance(told, dict):
        raise ValueError(f"{path}: is no object of songs")
    songs = {}
    for key, rows in told.items():
        try:
            songs[int(key)] = tuple((float(on), float(off), float(pitch)) for on, off, pitch in rows)
        except (TypeError, ValueError):
            raise ValueError(
                f"{path}: song {key!r} is no list of notes, each with onset, offset and pitch"
            ) from None
    return songs


def add_songs(
    found: Found,
    source: Path,
    title: str,
    notes: Mapping[int, tuple[Path, Sequence[Row]]],
    part_of: Callable[[int], str],
    licence: str,
) -> None:
    """Add the songs whose notes are known.

    Args:
        found: takes them.
        source: the folder of the data set.
        title: of the data set, noted in each song.
        notes: song number to the file of its notes and the notes.
        part_of: song number to ``train`` or ``test``.
        licence: noted in each song.
    """
    folders: dict[int, dict[str, Path]] = {}
    for path in audio_files(source):
        if path.parent.name.isdecimal():
            folders.setdefault(int(path.parent.name), {})[path.stem.lower()] = path
    alone = 0
    silent: list[int] = []
    for number, (file, rows) in sorted(notes.items()):
        sounds = folders.get(number)
        song_id, part = f"{number:03d}", part_of(number)
        if sounds is None:
            silent.append(number)
            continue
        mixture = _first(sounds, (*MIXTURES, str(number), song_id))
        voice, rest = _first(sounds, VOICES), _first(sounds, RESTS)
        labels = VoiceLabels(file, tuple(rows))
        meta = {"source": f"{title}/{number}", "licence": licence}
        both = [part, f"{part}_stem"]
        if voice is None:
            if mixture is None:
                some = next(iter(sounds.values())).parent
                found.broken[song_id] = f"{some}: neither {MIXTURES[0]}.* nor {VOICES[0]}.* is there"
                continue
            alone += 1
            stems = [whole("mix", mixture, VOICE)]
            found.add(song_id, both, stems, labels, [mixture, file], **meta, **OTHERS_HEARD)
            continue
        sung = whole("vocals", voice, VOICE)
        found.add(f"{song_id}_vocal", [f"{part}_vocal"], [sung], labels, [voice, file], **meta)
        if rest is not None:
            other = whole("accompaniment", rest, ())
        elif mixture is not None:
            other = Stem("accompaniment", Difference(mixture, voice), ())
        else:
            continue
        files = [path for path in (voice, rest or mixture, file) if path is not None]
        found.add(song_id, both, [sung, other], labels, files, **meta, **OTHERS_HEARD)
    if silent:
        found.remarks.append(
            f"{len(silent)} songs have notes but no folder with sound and are left out: "
            + listing([str(number) for number in silent], 20)
        )
    if alone:
        found.remarks.append(
            f"{alone} songs have no separated voice ({VOICES[0]}.*): they are not in the splits *_vocal; "
            "a separation program such as Demucs or Spleeter makes the voices"
        )


def _first(sounds: Mapping[str, Path], names: Sequence[str]) -> Path | None:
    return next((sounds[name] for name in names if name in sounds), None)
