"""Writing MIDI files, judged by our reader, mido and pretty_midi."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.config.vocabularies import class_names, get_program_vocab, representatives
from amt.notes import Note, array_to_notes, clean_notes, notes_to_array, read_midi, write_midi

GOLDEN = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "golden" / "data_midi.json.gz").read_bytes())
)

DEVIATIONS = {
    "multi": "tracks of programs 100 and 101 are named so that they read back as sung",
    "many_programs": "programs 16 and up use a second port; the published file gives them all channel 15",
}


def golden_notes(rows: list[list[Any]]) -> list[Note]:
    return [Note(on, off, pitch, program, bool(drum), v) for drum, program, on, off, pitch, v in rows]


@pytest.mark.parametrize("case", GOLDEN["write"], ids=lambda case: str(case["name"]))
def test_bytes_and_messages_of_the_published_writer(tmp_path: Path, case: dict[str, Any]) -> None:
    path = tmp_path / "file.mid"
    write_midi(golden_notes(case["notes"]), path)
    assert (path.read_bytes().hex() == case["hex"]) == (case["name"] not in DEVIATIONS)
    published = case["msgs"]
    if case["name"] == "multi":
        text = json.dumps(published).replace("Prg. 100", "Singing Voice")
        published = json.loads(text.replace("Prg. 101", "Singing Voice (chorus)"))
    elif case["name"] == "many_programs":
        for number, track in enumerate(published["tracks"][16:]):
            track[:] = [text.replace("channel=15", f"channel={number}") for text in track]
            track.insert(1, "MetaMessage('midi_port', port=1, time=0)")
    assert messages(path) == published


def messages(path: Path) -> dict[str, Any]:
    """What mido finds in a file, in the words of the vectors."""
    file = mido.MidiFile(path)
    return {"type": file.type, "tpb": file.ticks_per_beat, "tracks": [list(map(str, t)) for t in file.tracks]}


@pytest.mark.parametrize("case", GOLDEN["write"], ids=lambda case: str(case["name"]))
def test_what_was_written_reads_back(tmp_path: Path, case: dict[str, Any]) -> None:
    """Published files read as published; our own files as the notes that were written, voices included.

    Where tracks share a channel the published reader gives all the last program; here each keeps its own.
    """
    path = tmp_path / "file.mid"
    path.write_bytes(bytes.fromhex(case["hex"]))
    published = golden_notes(case["read_back"]["quantize_False"]["notes"])
    if case["name"] == "many_programs":
        published = golden_notes(case["notes"])
    assert_same(read_midi(path), published, velocities=False)
    # The published reader can also round to 10 ms; this one never does, so it agrees to half of that.
    rounded = golden_notes(case["read_back"]["quantize_True"]["notes"])
    exact = golden_notes(case["read_back"]["quantize_False"]["notes"])
    for one, other in zip(exact, rounded, strict=True):
        assert one[:2] == pytest.approx(other[:2], abs=0.0051)
    length = case["read_back"]["quantize_False"]["length"]
    assert max(note.offset for note in read_midi(path)) == pytest.approx(length, abs=0.001)
    notes = clean_notes(notes_to_array(golden_notes(case["notes"])))
    notes["program"][notes["is_drum"]] = 128
    write_midi(notes, path)
    assert_same(read_midi(path), array_to_notes(notes), velocities=False)


def assert_same(got: list[Note], want: list[Note], velocities: bool = True) -> None:
    def ordered(notes: list[Note]) -> list[Note]:
        return sorted(notes, key=lambda n: (round(n.onset, 2), n.is_drum, n.program, n.pitch))

    assert len(got) == len(want)
    for one, other in zip(ordered(got), ordered(want), strict=True):
        assert (one.pitch, one.program, one.is_drum) == (other.pitch, other.program, other.is_drum)
        assert one.onset == pytest.approx(other.onset, abs=0.001)
        assert one.offset == pytest.approx(other.offset, abs=0.001)
        assert not velocities or one.velocity == other.velocity


def test_bytes_of_published_model_output(tmp_path: Path) -> None:
    """Programs as their class, tracks named after it: what predict writes."""
    case = GOLDEN["write_model_output"]
    classes = representatives(get_program_vocab(case["inverse_vocab"]))
    names = class_names(case["inverse_vocab"])
    for program, (first, name) in case["inverse"].items():
        assert (classes[int(program)], names[first]) == (first, name)
    notes = [n._replace(program=classes.get(n.program, n.program)) for n in golden_notes(case["notes"])]
    path = tmp_path / "file.mid"
    write_midi(notes, path, track_names=names)
    assert path.read_bytes().hex() == case["hex"]
    assert messages(path) == case["msgs"]


def test_a_whole_band_comes_back(tmp_path: Path) -> None:
    """More programs than channels, a tempo, own names, velocities: read as written."""
    rng = np.random.default_rng(3)
    notes = [
        Note(0.5 * i, 0.5 * i + 0.4, 40 + i, program, False, int(rng.integers(2, 128)))
        for i, program in enumerate([*range(0, 96, 3), 100, 101])
    ]
    notes += [Note(0.25 * i, 0.25 * i + 0.01, 36 + i, 128, True, 90) for i in range(10)]
    path = tmp_path / "file.mid"
    write_midi(notes, path, tempo=87.5, track_names={0: "Flügel", 3: "Ωmega"})
    assert_same(read_midi(path), notes)
    file = mido.MidiFile(path)
    assert mido.tempo2bpm(file.tracks[0][0].tempo) == pytest.approx(87.5, abs=1e-3)
    names = [track.name.encode("latin1").decode("utf-8") for track in file.tracks]
    assert names[1:3] == ["Flügel", "Ωmega"]
    assert names[-3:] == ["Singing Voice", "Singing Voice (chorus)", "Drums"]


def test_track_names_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "file.mid"
    write_midi([Note(0, 1, 60, 30), Note(0, 1, 60, 128, True)], path, track_names={30: "Lead", 128: "Kit"})
    assert [track.name for track in mido.MidiFile(path).tracks] == ["", "Lead", "Kit"]


def test_mido_reads_the_same_notes_tempo_and_velocities(tmp_path: Path) -> None:
    path = tmp_path / "file.mid"
    write_midi([Note(0.25, 1.0, 60, 33, velocity=77), Note(0.5, 0.75, 61, 33)], path, tempo=93)
    with path.open("rb") as stream:
        file = mido.MidiFile(file=stream)
    assert mido.tempo2bpm(file.tracks[0][0].tempo) == pytest.approx(93, abs=1e-3)
    time, events = 0.0, []
    for message in file:
        time += message.time
        if message.type.startswith("note"):
            events.append((round(time, 3), message.type, message.note, message.velocity, message.channel))
    expected = [(0.25, "note_on", 60, 77, 0), (0.5, "note_on", 61, 100, 0)]
    expected += [(0.75, "note_off", 61, 0, 0), (1.0, "note_off", 60, 0, 0)]
    for got, want in zip(events, expected, strict=True):
        assert got[0] == pytest.approx(want[0], abs=0.001)
        assert got[1:] == want[1:]


def test_pretty_midi_reads_twenty_programs_and_drums(tmp_path: Path) -> None:
    pretty_midi = pytest.importorskip("pretty_midi")
    path = tmp_path / "file.mid"
    write_midi([Note(p, p + 0.5, 60, 2 * p) for p in range(20)] + [Note(1, 1.01, 36, 128, True)], path)
    instruments = pretty_midi.PrettyMIDI(str(path)).instruments
    assert [(i.program, i.is_drum) for i in instruments] == [(2 * p, False) for p in range(20)] + [(0, True)]
    assert [i.notes[0].start for i in instruments[:20]] == pytest.approx(list(range(20)))


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (Note(-0.1, 1, 60), "negative onset"),
        (Note(float("nan"), 1, 60), "not finite"),
        (Note(0, float("inf"), 60), "not finite"),
        (Note(0, 1, 128), "pitch outside"),
        (Note(0, 1, 60, 129), "program outside"),
        (Note(0, 1, 60, velocity=200), "velocity outside"),
    ],
)
def test_refused_notes(tmp_path: Path, note: Note, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        write_midi([note], tmp_path / "file.mid")
    assert not (tmp_path / "file.mid").exists()


def test_refused_tempo(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tempo of 2"):
        write_midi([], tmp_path / "file.mid", tempo=2)


NOTES = st.lists(
    st.builds(
        lambda onset, length, pitch, program, velocity: Note(
            onset,
            onset + (0.01 if program == 128 else length),
            pitch,
            program,
            program == 128,
            velocity,
        ),
        st.floats(0, 60),
        st.floats(0.02, 15),
        st.integers(0, 127),
        st.integers(0, 128),
        st.integers(2, 127),
    ),
    max_size=40,
)


@given(NOTES, st.sampled_from([None, 30.0, 93.7, 333.0]))
@settings(max_examples=150, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, notes: list[Note], tempo: float | None) -> None:
    """Any number of programs: the same notes to one millisecond (half a tick at each end)."""
    array = clean_notes(notes_to_array(notes))
    # Drum hits closer than a drum note, and notes that rounding could make touch in another order, aside.
    array = array[array["offset"] - array["onset"] > 0.005]
    path = tmp_path_factory.mktemp("midi") / "file.mid"
    write_midi(array, path, tempo=tempo)
    key = ["is_drum", "program", "pitch", "onset"]
    got = np.sort(notes_to_array(read_midi(path)), order=key)
    want = np.sort(array, order=key)
    for name in ("is_drum", "program", "pitch", "velocity"):
        np.testing.assert_array_equal(got[name], want[name])
    np.testing.assert_allclose(got["onset"], want["onset"], atol=0.001)
    pitched = ~want["is_drum"]
    np.testing.assert_allclose(got["offset"][pitched], want["offset"][pitched], atol=0.001)


def test_empty_and_unknown_velocity(tmp_path: Path) -> None:
    path = tmp_path / "file.mid"
    write_midi([], path)
    assert read_midi(path) == []
    write_midi(notes_to_array([Note(0, 1, 60, 100)]), path)
    assert read_midi(path) == [Note(0, 1, 60, 100, False, 100)]
    write_midi(array_to_notes(notes_to_array([Note(0, 0.5, 60, 101, velocity=5)])), path)
    assert read_midi(path) == [Note(0, 0.5, 60, 101, False, 5)]
