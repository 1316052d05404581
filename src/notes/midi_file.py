"""The wire format of MIDI files, read leniently: bytes in, events by track out.

Real files are cut off, wrapped, or hold damaged events that nobody needs. What can be read is read; what
is odd is listed in ``problems``. Refused, with ``ValueError``: what is no MIDI file, SMPTE time, type 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_VARLEN_BYTES = 5
"""The standard allows 4; a fifth byte is seen in real files."""
_DATA_BYTES = {0x8: 2, 0x9: 2, 0xA: 2, 0xB: 2, 0xC: 1, 0xD: 1, 0xE: 2}
_SYSTEM_DATA_BYTES = {0xF1: 1, 0xF2: 2, 0xF3: 1}
_META_TRACK_NAME, _META_PORT, _META_END, _META_TEMPO = 0x03, 0x21, 0x2F, 0x51


@dataclass
class MidiTrack:
    """Events of one track; ticks count from the start of the file."""

    name: str = ""
    events: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Tick, port, status byte, first and second data byte (0 if there is none) of channel messages."""
    tempos: list[tuple[int, int]] = field(default_factory=list)
    """Tick and microseconds per beat."""
    end_tick: int = 0
    """Where the track ends."""


@dataclass
class MidiFile:
    """A type 0 or 1 file with its time in ticks per beat."""

    ticks_per_beat: int
    tracks: list[MidiTrack]
    problems: list[str]
    """What was odd, in words."""


def parse_midi(data: bytes) -> MidiFile:
    """Read the bytes of a MIDI file, also inside a RIFF file or after foreign leading bytes."""
    if not data:
        raise ValueError("the file is empty")
    start = data.find(b"MThd", 0, 65536)
    if start < 0:
        raise ValueError("this is no MIDI file: it has no MThd header")
    problems = []
    if start:
        problems.append(f"{start} bytes before the MIDI header")
    length = int.from_bytes(data[start + 4 : start + 8], "big")
    header = data[start + 8 : start + 14]
    if len(header) < 6:
        raise ValueError("the MIDI header is cut off")
    file_type, num_tracks, division = (int.from_bytes(header[i : i + 2], "big") for i in (0, 2, 4))
    if file_type == 2:
        raise ValueError("type 2 MIDI files (independent patterns) are not supported")
    if division & 0x8000:
        raise ValueError("SMPTE time division is not supported; export it with ticks per beat")
    if division == 0:
        raise ValueError("the MIDI header says 0 ticks per beat, so the file has no time")

    tracks: list[MidiTrack] = []
    position = start + 8 + max(6, length)
    while position + 8 <= len(data):
        kind = data[position : position + 4]
        length = int.from_bytes(data[position + 4 : position + 8], "big")
        body = data[position + 8 : position + 8 + length]
        if kind == b"MTrk":
            if len(body) < length:
                problems.append(f"track {len(tracks)} is cut off after {len(body)} of {length} bytes")
            tracks.append(_parse_track(body, len(tracks), problems))
        elif len(tracks) >= num_tracks:
            break
        position += 8 + length
    if len(tracks) != num_tracks:
        problems.append(f"the header says {num_tracks} tracks, the file has {len(tracks)}")
    return MidiFile(division, tracks, problems)


def _read_varlen(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for _ in range(MAX_VARLEN_BYTES):
        byte = data[position]
        position += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, position
    raise ValueError("a length that does not end")


def _parse_track(data: bytes, number: int, problems: list[str]) -> MidiTrack:
    track = MidiTrack()
    tick = port = status = position = 0
    try:
        while position < len(data):
            delta, position = _read_varlen(data, position)
            tick += delta
            byte = data[position]
            if byte < 0x80 and not status:
                raise ValueError("a data byte without a status byte")
            if byte >= 0x80:
                position += 1
            if byte == 0xFF:
                kind = data[position]
                length, position = _read_varlen(data, position + 1)
                content = data[position : position + length]
                position += length
                if kind == _META_END:
                    break
                if kind == _META_TEMPO:
                    tempo = int.from_bytes(content[:3], "big")
                    if len(content) < 3 or tempo == 0:
                        problems.append(f"track {number} has an unusable tempo event")
                    else:
                        track.tempos.append((tick, tempo))
                elif kind == _META_TRACK_NAME and not track.name:
                    track.name = content.decode("utf-8", errors="replace").strip("\0 \t\r\n")
                elif kind == _META_PORT and content:
                    port = content[0]
            elif byte in (0xF0, 0xF7):
                length, position = _read_varlen(data, position)
                position += length
            elif byte >= 0xF0:
                position += _SYSTEM_DATA_BYTES.get(byte, 0)
            else:
                # Running status survives meta and system events: the standard ends it, files rely on it.
                if byte >= 0x80:
                    status = byte
                size = _DATA_BYTES[status >> 4]
                first = data[position]
                second = data[position + 1] if size == 2 else 0
                position += size
                track.events.append((tick, port, status, first, second))
        if position > len(data):
            raise IndexError
    except IndexError:
        problems.append(f"track {number} ends inside an event")
    except ValueError as error:
        problems.append(f"track {number} is unreadable after tick {tick}: {error}")
    track.end_tick = tick
    return track
