"""Reading MIDI files as they are found: the cases of other people, and hand-made kinds of them."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.notes import MidiWarning, Note, read_midi, states_program

CASES = Path(__file__).parents[1] / "data" / "midi"
EXPECTED: dict[str, Any] = json.loads((CASES / "expected.json").read_text())

CHOICE: dict[str, str | int] = {
    # Where several results are right: the index in the list of right ones, or the words of the error.
    "d03_overlap_same_pitch.mid": 1,
    "d04_zero_duration.mid": 1,
    "d08_missing_note_off.mid": 0,
    "d10_truncated_track.mid": 1,
    "d11_header_says_more_tracks.mid": 0,
    "d17_smpte_division.mid": "SMPTE time division is not supported",
    "d27_division_zero.mid": "0 ticks per beat",
    "d29_empty_0_bytes.mid": "the file is empty",
    "d32_all_notes_off.mid": 0,
}
VOICE_NAME = "00 ff030d" + b"Singing Voice".hex()
HEADER = b"MThd\0\0\0\6\0\1\0\1\1\xe0"
LONG_HEADER = b"MThd\0\0\0\x08\0\1\0\1\1\xe0\7\7"
RIFF = b"RIFF\x40\0\0\0RMIDdata\x30\0\0\0"
WARNED = {"d08_missing_note_off.mid", "d10_truncated_track.mid", "d11_header_says_more_tracks.mid"}


def assert_notes(notes: list[Note], expected: list[dict[str, Any]]) -> None:
    assert len(notes) == len(expected)
    for note, want in zip(notes, expected, strict=True):
        assert note.onset == pytest.approx(want["onset"], abs=0.002)
        if want["offset"] is not None:
            assert note.offset == pytest.approx(want["offset"], abs=0.002)
        assert (note.pitch, note.program, note.is_drum) == (want["pitch"], want["program"], want["is_drum"])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_case(name: str) -> None:
    expected = EXPECTED[name]
    choice = CHOICE.get(name)
    if isinstance(choice, str):
        with pytest.raises(ValueError, match=choice) as caught:
            read_midi(CASES / name)
        assert name in str(caught.value)
        return
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        notes = read_midi(CASES / name)
    assert len(seen) == (name in WARNED)
    assert all(item.category is MidiWarning and name in str(item.message) for item in seen)
    if choice is not None:
        want = expected["any_of"][choice]
    else:
        want = expected.get("notes", expected.get("with_pedal", expected.get("onsets_only")))
    key = ("onset", "is_drum", "program", "pitch")
    assert_notes(notes, sorted(want, key=lambda note: tuple(note[k] for k in key)))


def test_pedal_can_be_ignored() -> None:
    notes = read_midi(CASES / "d07_sustain_pedal.mid", sustain=False)
    assert_notes(notes, EXPECTED["d07_sustain_pedal.mid"]["pedal_ignored"])


GOLDEN = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "golden" / "data_midi.json.gz").read_bytes())
)
DEVIATIONS = {
    # Name of a published reading to what the product does, and why.
    "unclosed_note": [(0.0, 1.0, 60, 0), (0.5, 1.0, 62, 0)],  # ends with its track, published: after 10 ms
    "program_change_mid_note": [(0.0, 0.5, 60, 0), (0.208, 1.0, 64, 40)],  # not rounded to 10 ms
}
OPTIONS = {
    "force_all_program_to": lambda value: {"program": value},
    "ch_9_as_drum": lambda value: {"drums": None if value else False},
    "force_all_drum": lambda value: {"drums": value or None},
    "track_name_to_program": lambda value: {"track_programs": value},
    "quantize": lambda value: {},  # times are never rounded
    "binary_velocity": lambda value: {},  # velocities are always kept
}


@pytest.mark.parametrize("number", range(len(GOLDEN["read"])))
def test_published_readings(tmp_path: Path, number: int) -> None:
    """``length`` (when the last message of the file comes) and ``programs`` (of each channel at the end) are
    no results of this reader; they are held against the last note, which must agree with them.
    """
    case = GOLDEN["read"][number]
    options: dict[str, Any] = {}
    for name, value in case["options"].items():
        options |= OPTIONS[name](value)
    path = tmp_path / "file.mid"
    path.write_bytes(bytes.fromhex(case["hex"]))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        notes = read_midi(path, **options)
    assert len(seen) == (case["name"] == "unclosed_note")
    # A last note without length, and a drum, end 10 ms after their onset.
    assert max(n.onset for n in notes) <= case["length"] <= max(n.offset for n in notes) + 1e-9
    (at_the_end,) = [value for value in case["programs"] if value is not None]
    last = notes[-1]
    assert last.program == (128 if last.is_drum else at_the_end)
    got = [(round(n.onset, 3), round(n.offset, 3), n.pitch, n.program) for n in notes]
    if case["name"] in DEVIATIONS:
        assert got == DEVIATIONS[case["name"]]
        return
    # The published reader rounds to 10 ms and then drops what has no length, and gives drums any program.
    published = [row for row in case["notes"] if len(row) == 6]
    if case["name"] == "tempo_change" and not case["options"]:
        published = next(item["notes"] for item in GOLDEN["read"] if item["options"] == {"quantize": False})
    rounded = case["options"].get("quantize", True)
    assert len(got) == len(published)
    for note, (drum, program, onset, offset, pitch, velocity) in zip(notes, published, strict=True):
        assert note.onset == pytest.approx(onset, abs=0.0051 if rounded else 1e-9)
        assert note.offset == pytest.approx(offset, abs=0.0051 if rounded else 1e-9)
        assert (note.is_drum, note.pitch) == (bool(drum), pitch)
        assert note.program == (128 if drum else program)
        assert velocity == 1 or note.velocity == velocity


@pytest.mark.parametrize(
    ("tracks", "stated"),
    [
        (["00 903c64 60 803c40"], False),
        (["00 c000 00 903c64 60 803c40"], True),
        (["00 c000", "00 903c64 60 803c40"], True),
        (["00 c900 00 993c64 60 893c40", "00 903c64 60 803c40"], False),  # of a drum kit
        (["00 ff030556 6f636573 00 903c64 60 803c40"], False),
        ([f"{VOICE_NAME} 00 903c64 60 803c40"], True),
    ],
)
def test_whether_a_file_says_what_plays(tmp_path: Path, tracks: list[str], stated: bool) -> None:
    path = tmp_path / "file.mid"
    path.write_bytes(midi(*tracks))
    assert states_program(path) is stated
    path.write_bytes(b"MThd")
    with pytest.raises(ValueError, match=r"file\.mid: the MIDI header is cut off"):
        states_program(path)


def test_instruments_a_data_set_knows_better_than_its_files(tmp_path: Path) -> None:
    path = tmp_path / "file.mid"
    named = midi("00 ff030556 6f636573 00 903c64 60 803c40", "00 ff03034b6974 00 912464 60 812440")
    path.write_bytes(named)
    plain = [(n.pitch, n.program, n.is_drum) for n in read_midi(path)]
    assert plain == [(36, 0, False), (60, 0, False)]
    known = read_midi(path, track_programs={"VOCES": 100, "kit": 128}, program=5)
    assert [(n.pitch, n.program, n.is_drum) for n in known] == [(60, 100, False), (36, 128, True)]
    assert [n.program for n in read_midi(path, program=5)] == [5, 5]
    path.write_bytes(midi("00 993c64 60 893c40"))
    assert [(n.program, n.is_drum) for n in read_midi(path)] == [(128, True)]
    melodic = read_midi(path, drums=False)
    assert [(n.program, n.is_drum, round(n.offset, 3)) for n in melodic] == [(0, False, 0.1)]
    assert all(n.is_drum for n in read_midi(path, drums=True))


def test_programs_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.mid"
    path.write_bytes(midi("00 903c64 60 803c40"))
    for program in (-1, 128):
        with pytest.raises(ValueError, match="program must be 0 to 127"):
            read_midi(path, program=program)
    with pytest.raises(ValueError, match="'kit' the program 129"):
        read_midi(path, track_programs={"kit": 129})


def midi(*tracks: str, file_type: int = 1, division: int = 480, num_tracks: int | None = None) -> bytes:
    """A file of tracks given in hexadecimal, each closed by an end of track."""
    count = len(tracks) if num_tracks is None else num_tracks
    data = b"MThd" + b"".join(
        value.to_bytes(size, "big") for value, size in ((6, 4), (file_type, 2), (count, 2), (division, 2))
    )
    for track in tracks:
        body = bytes.fromhex(track.replace(" ", "")) + bytes.fromhex("00ff2f00")
        data += b"MTrk" + len(body).to_bytes(4, "big") + body
    return data


def read(tmp_path: Path, data: bytes) -> tuple[list[tuple[float, float, int, int]], list[str]]:
    path = tmp_path / "file.mid"
    path.write_bytes(data)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        notes = read_midi(path)
    rows = [(round(note.onset, 3), round(note.offset, 3), note.pitch, note.program) for note in notes]
    return rows, [str(item.message) for item in seen]


ONE = "00 903c64 8360 803c40"
"""Middle C for 480 ticks."""
NOTE = [(0.0, 0.5, 60, 0)]


@pytest.mark.parametrize(
    ("name", "data", "expected", "warned"),
    [
        ("tempo on a later track", midi(ONE, "00 ff5103 0f4240"), [(0.0, 1.0, 60, 0)], ""),
        ("running status over a meta event", midi("00 903c64 00 ff0601 41 8360 3c00"), NOTE, ""),
        ("controller value above 127", midi("00 b007ff " + ONE), NOTE, ""),
        ("short time signature", midi("00 ff580104 " + ONE), NOTE, ""),
        ("short tempo", midi("00 ff510107 " + ONE), NOTE, "unusable tempo"),
        ("tempo 0", midi("00 ff5103000000 " + ONE), NOTE, "unusable tempo"),
        ("sysex", midi("00 f005 7e7f0901f7 " + ONE), NOTE, ""),
        ("no end of track", midi(ONE)[:-4], NOTE, "cut off"),
        ("program on another track", midi("00 c028", ONE), [(0.0, 0.5, 60, 40)], ""),
        (
            "one channel, a program per track",
            midi("00 c028 " + ONE, "00 c049 00 904064 8360 804040"),
            [(0.0, 0.5, 60, 40), (0.0, 0.5, 64, 73)],
            "",
        ),
        ("same note on two tracks", midi(ONE, ONE), NOTE, ""),
        ("pitch above 127", midi("00 908564 " + ONE), NOTE, "pitch above 127"),
        ("pedal of another channel", midi("00 b1407f " + ONE + "8360 b14000"), NOTE, ""),
        ("pedal at 63 is up", midi("00 b0403f " + ONE + "8360 b04000"), NOTE, ""),
        ("pedal at 64 is down", midi("00 b04040 " + ONE + "8360 b04000"), [(0.0, 1.0, 60, 0)], ""),
        ("pedal never released", midi("00 b0407f " + ONE + "8360 b00700"), [(0.0, 1.0, 60, 0)], ""),
        ("all sound off beats the pedal", midi("00 b0407f " + ONE + "8360 b07800 8360 b04000"),
         [(0.0, 1.0, 60, 0)], ""),
        ("reset lifts the pedal", midi("00 b0407f " + ONE + "8360 b07900 8360 b04000"),
         [(0.0, 1.0, 60, 0)], ""),
        ("data without status", midi("00 3c64 " + ONE), [], "unreadable"),
        ("voice by track name", midi(VOICE_NAME + ONE), [(0.0, 0.5, 60, 100)], ""),
        ("unknown chunk", HEADER + b"XFIH\0\0\0\2\x09\x09" + midi(ONE)[14:], NOTE, ""),
        ("long header", LONG_HEADER + midi(ONE)[14:], NOTE, ""),
        ("riff", RIFF + midi(ONE) + b"LISTxxxxxxxxxxxx", NOTE, "before the MIDI"),
        ("D05 a pitch struck again before its note-off",
         midi("00 903c64 60 903c64 60 803c40 60 803c40"), [(0.0, 0.1, 60, 0), (0.1, 0.3, 60, 0)], ""),
        ("D07 a pitch struck again under the pedal ends its note",
         midi("00 b0407f 00 903c64 60 803c40 60 903c64 60 803c40 60 b04000"),
         [(0.0, 0.2, 60, 0), (0.2, 0.4, 60, 0)], ""),
        ("D09 no note-off and no more events", midi("00 903c64 8360 90407f 60 804000"),
         [(0.0, 0.6, 60, 0), (0.5, 0.6, 64, 0)], "without note-off"),
        ("D21 a program after the note-on", midi("00 c028 00 903c64 60 c049 60 803c40"),
         [(0.0, 0.2, 60, 40)], ""),
        ("D26 a length of five bytes", midi("00 ff01 8080808000 " + ONE), NOTE, ""),
        ("D34 the same note on two tracks, one longer", midi(ONE, "00 903c64 8740 803c40"),
         [(0.0, 1.0, 60, 0)], ""),
        ("bad metas: key signature, volume byte, port, sequencer specific",
         midi("00 ff590209ff 00 ff2100 00 ff7f00 00 ff580402 " + "0207ff" + ONE), NOTE, ""),
        ("track without end event", HEADER + b"MTrk\0\0\0\x09\0\x90\x3c\x64\x83\x60\x80\x3c\0", NOTE, ""),
    ],
)  # fmt: skip
def test_kinds(tmp_path: Path, name: str, data: bytes, expected: list[Any], warned: str) -> None:
    rows, seen = read(tmp_path, data)
    assert rows == expected
    assert len(seen) == bool(warned)
    assert all(warned in message for message in seen)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (midi(ONE, file_type=2), "type 2"),
        (b"version https://git-lfs.github.com/spec/v1\n", "no MThd"),
        (b"MThd\0\0\0\x06\0", "header is cut off"),
    ],
)
def test_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(tmp_path, data)


def test_program_is_fixed_at_onset_and_drums_stay_drums(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, midi("00 903c64 60 c028 8300 803c40 00 c918 00 99247f 00 892400"))
    assert rows == [(0.0, 0.5, 60, 0), (0.5, 0.51, 36, 128)]


def test_damaged_files_are_read_or_refused_by_name(tmp_path: Path) -> None:
    """Bytes changed, lost, added and cut off anywhere in the files of other people."""
    rng = np.random.default_rng(9)
    files = [path.read_bytes() for path in sorted(CASES.glob("*.mid"))]
    path = tmp_path / "file.mid"
    messages = []
    for number in range(800):
        data = bytearray(files[number % len(files)])
        for _ in range(int(rng.integers(1, 6))):
            at = int(rng.integers(0, len(data) + 1))
            noise = rng.integers(0, 256, int(rng.integers(1, 5)), dtype=np.uint8).tobytes()
            kind = int(rng.integers(0, 4))
            data[at : at + (0, len(noise), 1, len(data))[kind]] = (noise, b"", noise[:1], b"")[kind]
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MidiWarning)
            try:
                notes = read_midi(path)
            except ValueError as error:
                messages.append(str(error))
                continue
        assert all(0 <= note.onset < note.offset < float("inf") for note in notes)
        assert all(0 <= n.pitch < 128 and 0 <= n.program <= 128 and 0 < n.velocity < 128 for n in notes)
    assert 50 < len(messages) < 700
    assert all(message.startswith(f"{path}: ") for message in messages)


def test_any_bytes_after_a_header_never_crash(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        body = rng.integers(0, 256, rng.integers(0, 60), dtype=np.uint8).tobytes()
        rows, _ = read(tmp_path, midi(body.hex()))
        assert all(onset < offset for onset, offset, _, _ in rows)
