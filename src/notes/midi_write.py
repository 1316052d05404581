"""Notes to MIDI files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from .midi_read import DEFAULT_TEMPO, DRUM_CHANNEL
from .note import CHORUS_PROGRAM, DRUM_PROGRAM, SINGING_PROGRAM, Note, NoteArray, notes_to_array

TICKS_PER_SECOND = 960
"""Resolution: notes are written to about half a millisecond at any tempo."""
UNKNOWN_VELOCITY = 100
"""Written for notes of velocity 1, which stands for "on, loudness unknown"."""
MIN_TEMPO, MAX_TEMPO = 4.0, 1000.0
_VOICES = {SINGING_PROGRAM: ("Singing Voice", 65), CHORUS_PROGRAM: ("Singing Voice (chorus)", 53)}
"""Track name that read_midi knows, and the General MIDI program that plays it: alto sax, voice oohs."""
_MELODIC_CHANNELS = [channel for channel in range(16) if channel != DRUM_CHANNEL]


def write_midi(
    notes: Iterable[Note] | NoteArray,
    path: str | os.PathLike[str],
    *,
    tempo: float | None = None,
    track_names: Mapping[int, str] | None = None,
) -> None:
    """Write a type 1 MIDI file with one track per program, drums last on channel 10.

    ``tempo`` in beats per minute (4 to 1000) writes a tempo event; without it the file has the default
    120. ``track_names`` maps programs (128: drums) to names; else tracks are named "Drums", "Singing
    Voice" (100), "Singing Voice (chorus)" (101) and "Prg. N". :func:`read_midi` gives programs 100 and 101
    back by these names; they sound as programs 65 and 53. Velocity 1 is written as 100, others as they
    are. Every note lasts at least one tick, drums 10 ms. Programs beyond the fifteen melodic channels use
    further MIDI ports. Raises ``ValueError`` for notes that MIDI cannot hold.
    """
    array = notes_to_array(notes)
    _check(array)
    if tempo is not None and not MIN_TEMPO <= tempo <= MAX_TEMPO:
        raise ValueError(f"a tempo of {tempo} beats per minute is outside {MIN_TEMPO} to {MAX_TEMPO}")
    beat = DEFAULT_TEMPO if tempo is None else round(60e6 / tempo)
    ticks_per_beat = max(1, round(TICKS_PER_SECOND * beat / 1e6))
    ticks_per_second = ticks_per_beat * 1e6 / beat

    first_track = b"" if tempo is None else b"\x00\xff\x51\x03" + beat.to_bytes(3, "big")
    tracks = [first_track]
    program = np.where(array["is_drum"], DRUM_PROGRAM, array["program"])
    for number, value in enumerate(np.unique(program).tolist()):
        name = track_name(value, track_names)
        port, channel = divmod(number, len(_MELODIC_CHANNELS))
        if value == DRUM_PROGRAM:
            port, channel, sound = 0, DRUM_CHANNEL, 0
        else:
            channel = _MELODIC_CHANNELS[channel]
            sound = _VOICES[value][1] if value in _VOICES else value
        track = _meta(0x03, name.encode("utf-8"))
        if port:
            track += _meta(0x21, bytes([port]))
        track += bytes([0, 0xC0 | channel, sound])
        tracks.append(track + _note_events(array[program == value], channel, ticks_per_second))

    data = b"MThd" + (6).to_bytes(4, "big")
    data += b"".join(value.to_bytes(2, "big") for value in (1, len(tracks), ticks_per_beat))
    for track in tracks:
        track += _meta(0x2F, b"")
        data += b"MTrk" + len(track).to_bytes(4, "big") + track
    Path(path).write_bytes(data)


def track_name(program: int, track_names: Mapping[int, str] | None = None) -> str:
    """The name of the track of a program (128: drums), see :func:`write_midi`."""
    if track_names is not None and program in track_names:
        return track_names[program]
    names = {DRUM_PROGRAM: "Drums"} | {key: voice[0] for key, voice in _VOICES.items()}
    return names.get(program, f"Prg. {program}")


def _check(notes: NoteArray) -> None:
    program = np.where(notes["is_drum"], 0, notes["program"])
    for what, bad in (
        ("a time that is not finite", ~(np.isfinite(notes["onset"]) & np.isfinite(notes["offset"]))),
        ("a negative onset", notes["onset"] < 0),
        ("a pitch outside 0 to 127", (notes["pitch"] < 0) | (notes["pitch"] > 127)),
        ("a program outside 0 to 127", (program < 0) | (program > 127)),
        ("a velocity outside 0 to 127", (notes["velocity"] < 0) | (notes["velocity"] > 127)),
    ):
        if bad.any():
            raise ValueError(f"MIDI cannot hold the note {notes[bad][0]}: it has {what}")


def _note_events(notes: NoteArray, channel: int, ticks_per_second: float) -> bytes:
    onset = np.rint(notes["onset"] * ticks_per_second).astype(np.int64)
    offset = np.rint(notes["offset"] * ticks_per_second).astype(np.int64)
    shortest = np.where(notes["is_drum"], round(0.01 * ticks_per_second), 1)
    offset = np.maximum(offset, onset + shortest)
    velocity = np.where(notes["velocity"] > 1, notes["velocity"], UNKNOWN_VELOCITY)
    pitches = notes["pitch"].tolist()
    starts = zip(onset.tolist(), pitches, velocity.tolist(), strict=True)
    events = [(tick, 1, pitch, loud) for tick, pitch, loud in starts]
    events += [(tick, 0, pitch, 0) for tick, pitch in zip(offset.tolist(), pitches, strict=True)]
    out = bytearray()
    now = last_status = 0
    for tick, is_on, pitch, loud in sorted(events):
        status = (0x90 if is_on else 0x80) | channel
        out += _varlen(tick - now)
        out += bytes([pitch, loud] if status == last_status else [status, pitch, loud])
        now, last_status = tick, status
    return bytes(out)


def _varlen(value: int) -> bytes:
    if value >= 1 << 28:
        raise ValueError("MIDI cannot hold a pause of more than 77 hours")
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(value & 0x7F | 0x80)
    return bytes(reversed(out))


def _meta(kind: int, content: bytes) -> bytes:
    return b"\x00\xff" + bytes([kind]) + _varlen(len(content)) + content
