"""What an estimate is held against: notes of MIDI files that name their instrument, and that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mido
import numpy as np
import pytest
import soundfile
import torch

from amt.inference import SongTranscriber, run_predict, untrained_transcriber
from amt.inference.reference import TrueNotes, read_reference
from amt.notes import Note, write_midi
from amt.tokenizer import NoteTokenizer

MELODY = (60, 62, 64, 65)


@pytest.fixture
def tune(tmp_path: Path) -> Callable[..., Path]:
    """Writes a melody with mido, which writes no program of its own, and the events that are named."""

    def write(*, name: str = "", program: int | None = None, drums: int = 0, melody: Sequence[int] = MELODY):
        track = mido.MidiTrack([mido.MetaMessage("track_name", name=name)] if name else [])
        if program is not None:
            track.append(mido.Message("program_change", channel=0, program=program))
        for channel, pitches in ((0, melody), (9, [36] * drums)):
            for pitch in pitches:
                track.append(mido.Message("note_on", channel=channel, note=pitch, velocity=90, time=100))
                track.append(mido.Message("note_off", channel=channel, note=pitch, time=300))
        path = tmp_path / "song.mid"
        mido.MidiFile(tracks=[track]).save(path)
        return path

    return write


def read(path: Path, task: str, subtask: str | None = None, program: int | None = None) -> TrueNotes:
    return read_reference(path, NoteTokenizer.from_task(task, segment_samples=32767), subtask, program)


def pitches(found: TrueNotes) -> list[tuple[int, int]]:
    return [(note.pitch, note.program) for note in found.notes]


@pytest.mark.parametrize(("task", "subtask"), [("mc13_fsingle_vocal", None), ("singing_v1", "singing-only")])
def test_a_file_without_programs_is_of_the_instrument_of_the_task(
    tune: Callable[..., Path], task: str, subtask: str | None
) -> None:
    path = tune(drums=3)
    found = read(path, task, subtask)
    assert pitches(found) == [(pitch, 100) for pitch in MELODY]
    asked = task if subtask is None else f"{task} ({subtask})"
    assert found.remark == (
        f"{path} says no program, so its 4 pitched notes count as 100 Singing Voice, "
        f"which {asked} transcribes"
    )
    assert found.choices == "100 Singing Voice, 101 Singing Voice (chorus)"


def test_a_file_with_programs_means_what_it_says(tune: Callable[..., Path]) -> None:
    for program, named in ((0, "0 Acoustic Grand Piano: 4"), (53, "53 Voice Oohs: 4")):
        path = tune(program=program)
        found = read(path, "mc13_fsingle_vocal")
        assert found.notes == []
        assert found.remark == (
            f"nothing to score: mc13_fsingle_vocal transcribes none of the 4 notes of {path} ({named})"
        )
        assert found.choices == "100 Singing Voice, 101 Singing Voice (chorus)"
        assert pitches(read(path, "mc13_fsingle_vocal", program=101)) == [(pitch, 101) for pitch in MELODY]
    still = read(path, "mc13_fsingle_vocal", program=50)
    assert still.notes == []
    assert "(50 Synth Strings 1: 4)" in still.remark
    sung = read(tune(name="Singing Voice"), "mc13_fsingle_vocal")
    assert (pitches(sung), sung.remark) == ([(pitch, 100) for pitch in MELODY], "")


def test_a_task_of_all_instruments_takes_the_piano(tune: Callable[..., Path]) -> None:
    for program in (None, 0):
        found = read(tune(program=program, drums=1), "mc13_fsingle")
        assert found == replace(found, remark="", choices="")
        assert sorted(pitches(found)) == [(36, 128), *((pitch, 0) for pitch in MELODY)]


def test_notes_that_no_program_would_make_targets(tune: Callable[..., Path], tmp_path: Path) -> None:
    found = read(tune(drums=2, melody=()), "mc13_fsingle_vocal")
    assert (found.notes, found.choices) == ([], "")
    assert "transcribes none of the 2 notes" in found.remark
    assert "(128 Drums: 2)" in found.remark
    assert read(tune(drums=2), "singing_drum_v1", "drum-only").remark == ""
    assert "transcribes none of the 4 notes" in read(tune(), "singing_drum_v1", "drum-only").remark
    assert read(tune(melody=()), "mc13_fsingle_vocal") == TrueNotes([])
    path = tmp_path / "strange.mid"
    write_midi([Note(0, 1, 60, 96), Note(0, 0.01, 38, 128, True)], path)
    found = read(path, "mc13_256")
    assert pitches(found) == [(38, 128)]
    assert "transcribes none of the 1 note of" in found.remark
    assert "(96 FX 1 (rain): 1)" in found.remark
    assert found.choices.startswith("0 Acoustic Grand Piano, ")
    assert found.choices.endswith(" and 94 more"), "twelve classes hold 98 programs"


@pytest.fixture
def predicted(
    tiny: SongTranscriber,
    tune: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[str, str, Any]]:
    """Predicts ``song.wav`` with a model of voices: what is said, and the reference of the picture."""
    folder = tmp_path / "logs" / "ymt3" / "vocal" / "checkpoints"
    folder.mkdir(parents=True)
    vocal = untrained_transcriber(
        replace(tiny.experiment, exp_id="vocal", task="mc13_fsingle_vocal"), seed=2, device="cpu"
    )
    state = {f"model.{name}": value for name, value in vocal.model.state_dict().items()}
    content = {"amt_format": 1, "experiment": vocal.experiment.to_json(), "state_dict": state}
    torch.save(content | {"global_step": 1}, folder / "last.ckpt")
    soundfile.write(tmp_path / "song.wav", np.random.default_rng(0).normal(0, 0.1, 16000), 16000)
    drawn: list[Any] = []

    def draw(path: Path, notes: Any, reference: Any, *others: Any) -> None:
        drawn.append(reference)

    monkeypatch.setattr("amt.inference.outputs.draw_piano_roll", draw)

    def predict(**options: Any) -> tuple[str, str, Any]:
        status = run_predict(
            "vocal", [tmp_path / "song.wav"], log_dir=tmp_path / "logs", formats=("png",), **options
        )
        assert status == 0
        said = capsys.readouterr()
        return said.out, said.err, drawn.pop()

    return predict


def test_predict_scores_a_reference_that_names_no_program(
    tune: Callable[..., Path], predicted: Callable[..., tuple[str, str, Any]]
) -> None:
    path = tune()
    out, err, reference = predicted()
    assert "against 4 reference notes" in out
    assert f"note: {path} says no program, so its 4 pitched notes count as 100 Singing Voice" in err
    assert "--reference-program N says what they are (100 Singing Voice, 101" in err
    assert len(reference) == 4
    out, err, reference = predicted(reference=path, reference_program=101)
    assert "against 4 reference notes" in out
    assert "note:" not in err
    assert [note.program for note in reference] == [101] * 4


def test_predict_names_the_way_out_and_draws_no_empty_reference(
    tune: Callable[..., Path], predicted: Callable[..., tuple[str, str, Any]]
) -> None:
    path = tune(program=0)
    out, err, reference = predicted()
    assert "onset F1" not in out
    assert f"note: nothing to score: mc13_fsingle_vocal transcribes none of the 4 notes of {path}" in err
    assert "; --reference-program N says what they are (100 Singing Voice, 101" in err
    assert reference is None
    assert "against 4 reference notes" in predicted(reference_program=100)[0]
    tune(melody=())
    out, err, reference = predicted()
    assert (reference, "note:" in err) == ([], False), "a song without notes is held against none"
