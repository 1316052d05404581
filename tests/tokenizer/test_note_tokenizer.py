"""Laws of the tokenizer: round trips, any sequence can be read, long sequences, targets, training labels."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amt.config import AudioConfig, Experiment
from amt.config.tasks import get_task, list_tasks
from amt.config.vocabularies import get_drum_vocab, get_program_vocab, representatives
from amt.notes import NOTE_DTYPE, Note, NoteArray, array_to_notes, notes_to_array, trim_overlaps
from amt.tokenizer import NoteTokenizer

PROGRAMS = [0, 1, 4, 33, 40, 65, 73, 100, 101, 128]
DRUMS = [36, 35, 38, 42, 49]


def make_tokenizer(task: str, segment: int = 32767, max_length: int = 2048) -> NoteTokenizer:
    return NoteTokenizer.from_task(task, segment_samples=segment, max_length=max_length)


def random_notes(rng: np.random.Generator, count: int, seconds: float) -> NoteArray:
    notes = np.zeros(count, NOTE_DTYPE)
    notes["onset"] = rng.uniform(0, seconds, count)
    notes["offset"] = notes["onset"] + rng.exponential(0.5, count)
    notes["program"] = rng.choice(PROGRAMS, count)
    notes["is_drum"] = notes["program"] == 128
    notes["pitch"] = np.where(notes["is_drum"], rng.choice(DRUMS, count), rng.integers(40, 80, count))
    notes["velocity"] = rng.integers(1, 128, count)
    return notes


def as_transcribed(tokenizer: NoteTokenizer, notes: NoteArray) -> list[tuple[int, int, int, bool, int]]:
    """What tokens can say of notes, in ticks: classes as programs, no overlaps, drums without end."""
    task = tokenizer.task
    programs = representatives(get_program_vocab(task.program_vocab))
    drums = representatives(get_drum_vocab(task.drum_vocab))
    rows = notes.copy()
    for row in rows:
        row["pitch"] = drums.get(int(row["pitch"]), row["pitch"]) if row["is_drum"] else row["pitch"]
        row["program"] = programs.get(int(row["program"]), row["program"])
        row["velocity"] = 1
    found = set()
    for note in array_to_notes(trim_overlaps(rows)):
        on, off = round(note.onset * 100), round(note.offset * 100)
        found.add((on, on if note.is_drum else off, note.program, note.is_drum, note.pitch))
    return sorted(found)


grid_notes = st.lists(
    st.tuples(
        st.integers(0, 900),
        st.integers(1, 1500),
        st.sampled_from(PROGRAMS),
        st.integers(58, 62),
        st.sampled_from(DRUMS),
    ),
    max_size=40,
)


@pytest.mark.parametrize("task", list_tasks())
@given(rows=grid_notes, segment=st.sampled_from([16000, 32767, 65534]))
@settings(max_examples=25, deadline=None)
def test_round_trip_on_the_grid_is_exact(task: str, rows: list[Any], segment: int) -> None:
    """Notes on the 10 ms grid come back as they were, over any number of windows."""
    tokenizer = make_tokenizer(task, segment)
    raw = [
        Note(on / 100, (on + length) / 100, drum if program == 128 else pitch, program, program == 128)
        for on, length, program, pitch, drum in rows
    ]
    # Published tasks keep programs of one class apart until they are written, so leave one of each.
    mapping = representatives(get_program_vocab(tokenizer.task.program_vocab))
    if not tokenizer.task.merge_classes:
        raw = [n._replace(program=mapping.get(n.program, n.program)) for n in raw]
    notes = tokenizer.target_notes(raw)
    last = max(notes["offset"], default=0.0)
    ids = tokenizer.encode(notes, num_windows=int(last * 16000 / segment) + 1)
    decoded = tokenizer.decode(ids)
    assert not decoded.errors
    assert as_transcribed(tokenizer, notes_to_array(decoded.notes)) == as_transcribed(tokenizer, notes)


@pytest.mark.parametrize("task", ["mt3_full_plus", "mc13_fsingle", "mc13_full_plus_256"])
@pytest.mark.parametrize("seed", range(8))
def test_round_trip_to_one_step(task: str, seed: int) -> None:
    tokenizer = make_tokenizer(task, 65534)
    rng = np.random.default_rng(seed)
    notes = random_notes(rng, 120, 20)
    mapping = representatives(get_program_vocab(tokenizer.task.program_vocab))
    notes["program"] = [mapping.get(program, program) for program in notes["program"].tolist()]
    drums = representatives(get_drum_vocab("gm"))
    notes["pitch"] = [drums[n.pitch] if n.is_drum else n.pitch for n in array_to_notes(notes)]
    notes["offset"] = np.maximum(notes["offset"], notes["onset"] + 0.05)
    notes = tokenizer.target_notes(notes)
    notes = notes[notes["is_drum"] | (notes["offset"] - notes["onset"] > 0.03)]
    last = notes["offset"].max()
    decoded = tokenizer.decode(tokenizer.encode(notes, num_windows=int(last * 16000 / 65534) + 1))
    assert not decoded.errors
    key = ["is_drum", "program", "pitch", "onset"]
    got, want = np.sort(notes_to_array(decoded.notes), order=key), np.sort(notes, order=key)
    for name in ("pitch", "program", "is_drum"):
        np.testing.assert_array_equal(got[name], want[name])
    np.testing.assert_allclose(got["onset"], want["onset"], atol=0.0051)
    pitched = ~want["is_drum"]
    np.testing.assert_allclose(got["offset"][pitched], want["offset"][pitched], atol=0.0051)


BORDER_OFFSETS = (-0.011, -0.01, -0.0051, -0.005, -0.0049, -1e-9, 0.0, 1e-9, 0.0049, 0.005, 0.0051, 0.01)


@pytest.mark.parametrize("segment", [16000, 32767, 65534])
@pytest.mark.parametrize("task", ["mt3_full_plus", "singing_v1", "mc13_256"])
def test_notes_that_begin_or_end_at_a_border_come_back(task: str, segment: int) -> None:
    """Rounded to just before or after the start of a window, touching there or not."""
    tokenizer = make_tokenizer(task, segment, max_length=128)
    for number in (1, 2, 3, 6, 12, 25):
        for apart in BORDER_OFFSETS:
            at = number * segment / 16000 + apart
            first, second = Note(at - 0.3, at, 60, 100), Note(at, at + 0.3, 60, 100)
            for notes in ([first], [second], [first, second]):
                ids = tokenizer.encode(tokenizer.target_notes(notes), num_windows=number + 2)
                decoded = tokenizer.decode(ids)
                assert not decoded.errors
                assert len(decoded.notes) == len(notes)
                for got, want in zip(decoded.notes, notes, strict=True):
                    assert got[:2] == pytest.approx(want[:2], abs=0.0101)


@pytest.mark.parametrize("task", ["mt3_full_plus", "mc13_fsingle", "mc13_full_plus_256"])
def test_encode_window_equals_the_row_of_the_song(task: str) -> None:
    tokenizer = make_tokenizer(task, 65534)
    rng = np.random.default_rng(2)
    notes = tokenizer.target_notes(random_notes(rng, 300, 30))
    prepared = tokenizer.prepare(notes)
    starts = np.concatenate([[0, 65534, 40 * 16000], rng.integers(0, 30 * 16000, 40)])
    rows = tokenizer.encode_prepared(pickle.loads(pickle.dumps(prepared)), starts)
    for start, row in zip(starts.tolist(), rows, strict=True):
        begin, end = start / 16000, (start + 65534) / 16000
        near = notes[(notes["onset"] < end) & (notes["offset"] >= begin)]
        label = tokenizer.encode_window(rng.permutation(near), begin)
        np.testing.assert_array_equal(label, row[:, : label.shape[1]])
        assert not row[:, label.shape[1] :].any()
        alone = tokenizer.encode_prepared(prepared, [start])
        np.testing.assert_array_equal(alone[0], row)


def test_encode_window_ends_overlaps_and_lengthens_short_notes() -> None:
    tokenizer = make_tokenizer("mc13_fsingle")
    notes = [Note(-0.5, 1.0, 60, 0), Note(0.3, 0.8, 60, 1), Note(0.9, 0.9, 62, 40)]
    label = tokenizer.encode_window(notes_to_array(notes))
    assert tokenizer.describe(label[0]) == [
        *("program 0", "pitch 60", "tie"),
        *("shift 30", "velocity 0", "pitch 60", "velocity 1", "pitch 60"),
        *("shift 80", "velocity 0", "pitch 60"),
        *("shift 90", "program 40", "velocity 1", "pitch 62"),
        *("shift 91", "velocity 0", "pitch 62", "EOS"),
    ]


@pytest.mark.parametrize("max_length", [2, 3, 5, 12, 31, 64])
def test_long_sequences_are_cut_between_events(max_length: int) -> None:
    rng = np.random.default_rng(0)
    notes = random_notes(rng, 200, 4)
    whole = make_tokenizer("mc13_fsingle")
    tokenizer = make_tokenizer("mc13_fsingle", max_length=max_length)
    targets = tokenizer.target_notes(notes)
    ids, full = tokenizer.encode(targets, num_windows=3), whole.encode(targets, num_windows=3)
    assert whole.truncated == 0
    assert tokenizer.truncated == 3
    for row, complete in zip(ids[:, 0].tolist(), full[:, 0].tolist(), strict=True):
        tokens = row[: row.index(1)]
        assert tokens.count(tokenizer.tie_id) == 1
        ties = tokens.index(tokenizer.tie_id)
        assert tokens[:ties] == complete[:ties]
        body, start = tokens[ties + 1 :], complete.index(tokenizer.tie_id) + 1
        assert body == complete[start : start + len(body)]
        kind = tokenizer.describe(tokens[-1:])[0].split()[0]
        assert kind in ("tie", "pitch", "drum")
    # Several windows, so notes that lost their end are ended by the next window.
    assert all(note.offset > note.onset for note in tokenizer.decode(ids).notes)


def test_merged_classes_write_programs_once_and_follow_ties() -> None:
    """Two pianos of one class are one instrument in mc13_fsingle; published tasks keep them apart."""
    notes = [Note(0.1, 0.5, 60, 0), Note(0.2, 0.6, 64, 1)]
    for task, count in (("mc13_fsingle", 1), ("mt3_midi_plus", 4)):
        tokenizer = make_tokenizer(task)
        words = tokenizer.describe(tokenizer.encode(notes, num_windows=1)[0, 0])
        assert words.count("program 0") == count


def test_target_notes() -> None:
    notes = [
        Note(0, 1, 60, 1),
        Note(0.5, 2, 60, 0),
        Note(0, 1, 70, 100),
        Note(0, 1, 72, 101),
        Note(0, 1, 50, 98),
        Note(0, 0.01, 36, 128, True),
    ]
    kept = {
        task: [
            (note.program, note.offset) for note in array_to_notes(make_tokenizer(task).target_notes(notes))
        ]
        for task in ("mc13_fsingle", "mt3_full_plus", "mc13_fsingle_vocal", "mc13_256")
    }
    assert kept["mc13_fsingle_vocal"] == [(100, 1.0), (101, 1.0)]
    assert kept["mt3_full_plus"] == [(1, 1.0), (98, 1.0), (100, 1.0), (101, 1.0), (128, 0.01), (0, 2.0)]
    assert kept["mc13_fsingle"] == [(1, 0.5), (98, 1.0), (100, 1.0), (101, 1.0), (128, 0.01), (0, 2.0)]
    assert kept["mc13_256"] == [(1, 1.0), (100, 1.0), (101, 1.0), (128, 0.01), (0, 2.0)]
    assert make_tokenizer("mc13_256").prepare(notes).num_without_channel == 1


def test_vocabulary_sizes() -> None:
    assert make_tokenizer("mc13_fsingle", 32767).vocab_size == 596
    assert make_tokenizer("mc13_fsingle", 65534).vocab_size == 801
    assert make_tokenizer("mc13_fsingle_vocal", 65534).vocab_size == 801
    tokenizer = make_tokenizer("mc13_fsingle", 65534)
    assert [tokenizer.token_range(k).start for k in ("shift", "pitch", "tie", "drum")] == [3, 414, 544, 673]
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.tie_id) == (0, 1, 544)
    assert tokenizer.seconds_per_step == 0.01
    assert tokenizer.describe([0, 2, 801, 3]) == ["PAD", "UNK", "unknown 801", "shift 0"]


def test_tokenizer_of_a_run() -> None:
    audio = AudioConfig(segment_samples=22050, sample_rate=22050)
    tokenizer = NoteTokenizer.from_experiment(Experiment(task="mt3_full", event_length=99, audio=audio))
    assert tokenizer.task.name == "mt3_full"
    assert (tokenizer.segment_samples, tokenizer.sample_rate, tokenizer.max_length) == (22050, 22050, 99)


def test_state_between_windows() -> None:
    tokenizer = make_tokenizer("mc13_fsingle")
    words = {word: token for token, word in enumerate(tokenizer.describe(range(tokenizer.vocab_size)))}

    def ids(*windows: str) -> list[list[list[int]]]:
        rows = [[words[word] for word in window.split(", ")] for window in windows]
        return [[row + [0] * (30 - len(row))] for row in rows]

    start = "tie, shift 100, program 0, velocity 1, pitch 60, EOS"
    tied = "program 0, pitch 60, tie, shift 50, velocity 0, pitch 60, EOS"
    broken = tokenizer.decode(ids(start, "pitch 3, shift 4, EOS", tied))
    assert [(n.onset, round(n.offset, 6)) for n in broken.notes] == [(1.0, 4.6)]
    assert broken.errors["Err/Missing tie"] == 1
    ignored = tokenizer.decode(ids("tie, EOS", tied))
    assert ignored.notes == []
    started = tokenizer.decode(ids("tie, EOS", tied), start_from_ties=True)
    assert [(n.onset, round(n.offset, 6)) for n in started.notes] == [(2.0479375, 2.55)]
    assert not started.errors


def test_user_mistakes() -> None:
    tokenizer = make_tokenizer("mc13_256")
    with pytest.raises(ValueError, match=r"shape \(windows, 13, tokens\)"):
        tokenizer.decode(np.zeros((2, 1, 9), dtype=np.int64))
    with pytest.raises(ValueError, match="2 windows but 1 start"):
        tokenizer.decode(np.zeros((2, 13, 9), dtype=np.int64), start_samples=[0])
    with pytest.raises(ValueError, match="either num_windows or start_samples"):
        tokenizer.encode([])
    for bad in (Note(0, 1, 128), Note(0, 1, -1), Note(0, 1, 60, 128), Note(0, 1, 60, -1)):
        with pytest.raises(ValueError, match="0 to 127"):
            tokenizer.encode([bad], num_windows=1)
        with pytest.raises(ValueError, match="0 to 127"):
            tokenizer.encode_window(notes_to_array([bad]))
    for bad in (Note(float("nan"), 1, 60), Note(0, float("inf"), 60)):
        with pytest.raises(ValueError, match="must be finite"):
            tokenizer.encode([bad], num_windows=1)
        with pytest.raises(ValueError, match="must be finite"):
            tokenizer.encode_window(notes_to_array([bad]))
        assert len(tokenizer.target_notes([bad])) == 0
    with pytest.raises(ValueError, match="sub-task of mc13_256"):
        tokenizer.prefix_ids("default")
    with pytest.raises(ValueError, match="token kind 'shifts'"):
        tokenizer.token_range("shifts")
    with pytest.raises(ValueError, match="too short"):
        make_tokenizer("mc13_fsingle", max_length=1)


@pytest.mark.parametrize("task", list_tasks())
def test_empty_music(task: str) -> None:
    tokenizer = make_tokenizer(task)
    ids = tokenizer.encode([], num_windows=2)
    assert ids.shape == (2, get_task(task).num_channels, tokenizer.max_length)
    assert (ids[:, :, :2] == [tokenizer.tie_id, 1]).all()
    assert not ids[:, :, 2:].any()
    assert tokenizer.encode([], num_windows=0).shape[0] == 0
    assert tokenizer.encode_window(np.empty(0, NOTE_DTYPE)).shape == (tokenizer.num_channels, 2)
    assert tokenizer.decode(ids).notes == []
    assert tokenizer.decode(ids[:0]).notes == []


def test_worked_example_of_the_documentation() -> None:
    """docs/tokens.md: its notes give its windows, and its windows its notes."""
    text = (Path(__file__).parents[2] / "docs" / "tokens.md").read_text(encoding="utf-8")
    example = text[text.index("## A worked example") :]
    blocks = re.findall(r"```\w*\n(.*?)```", example, flags=re.DOTALL)
    scope: dict[str, Any] = {}
    exec(blocks[0], scope)
    written = [
        [tuple(part.split(" = ")) for part in line.split(" | ")] for line in blocks[1].splitlines() if line
    ]
    tokenizer, ids = scope["tok"], scope["ids"]
    assert len(written) == len(ids)
    for row, line in zip(ids[:, 0], written, strict=True):
        length = int(np.argmax(row == tokenizer.eos_id)) + 1
        assert [int(token) for token, _ in line] == row[:length].tolist()
        assert [word.strip() for _, word in line] == tokenizer.describe(row[:length])
    assert not scope["result"].errors
    got = [(n.onset, n.offset, n.pitch, n.program, n.is_drum) for n in scope["result"].notes]
    assert got == [(n.onset, n.offset, n.pitch, n.program, n.is_drum) for n in scope["notes"]]


@pytest.mark.parametrize("task", ["mc13_fsingle", "mc13_full_plus_256"])
@given(rows=grid_notes, lead=st.sampled_from([0, 1600, 2400, 6400]))
@settings(max_examples=40, deadline=None)
def test_overlapping_windows_say_what_windows_back_to_back_say(task: str, rows: list[Any], lead: int) -> None:
    tokenizer = make_tokenizer(task, 24000)
    raw = [
        Note(on / 100, (on + length) / 100, drum if program == 128 else pitch, program, program == 128)
        for on, length, program, pitch, drum in rows
    ]
    mapping = representatives(get_program_vocab(tokenizer.task.program_vocab))
    notes = tokenizer.target_notes([n._replace(program=mapping.get(n.program, n.program)) for n in raw])
    last = max(notes["offset"], default=0.0)
    starts = np.arange(int(last * 16000 / 12000) + 1) * 12000
    seams = starts + lead
    seams[0] = 0
    ids = tokenizer.encode(notes, start_samples=starts)
    if tokenizer.truncated:
        return
    decoded = tokenizer.decode(ids, starts, seams=seams)
    assert as_transcribed(tokenizer, notes_to_array(decoded.notes)) == as_transcribed(tokenizer, notes)
    assert not decoded.errors


def test_an_onset_that_two_windows_place_on_either_side_of_the_seam_is_one_onset() -> None:
    """The seam lies at 0.90 s: one note placed before and behind it, one placed behind and before it."""
    tokenizer = make_tokenizer("mc13_fsingle_vocal", 24000)

    def window(notes: list[Note], start: float) -> Any:
        array = notes_to_array(notes)
        array["onset"] -= start
        array["offset"] -= start
        return tokenizer.encode_window(array)[0].tolist()

    def song(*windows: list[int]) -> list[Note]:
        longest = max(map(len, windows))
        ids = np.array([[row + [0] * (longest - len(row))] for row in windows])
        return tokenizer.decode(ids, [0, 12000], seams=[0, 14400]).notes

    def sung(onset: float, offset: float) -> list[Note]:
        return [Note(onset, offset, 60, 100)]

    twice = song(window(sung(0.88, 1.2), 0.0), window(sung(0.92, 1.2), 0.75))
    assert [(n.onset, n.offset) for n in twice] == [(0.88, 1.2)]
    never = song(window(sung(0.92, 1.2), 0.0), window(sung(0.88, 1.2), 0.75))
    assert [(n.onset, n.offset) for n in never] == [(0.88, 1.2)]
    apart = song(window(sung(0.5, 0.8), 0.0), window(sung(1.0, 1.2), 0.75))
    assert [(n.onset, n.offset) for n in apart] == [(0.5, 0.8), (1.0, 1.2)]
