"""The task table and the vocabularies against the published ones."""

from __future__ import annotations

import gzip
import json
import pickle
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from amt.config.tasks import SubTask, Task, get_task, likely_program, list_tasks, none_taken_text
from amt.config.vocabularies import (
    class_names,
    get_drum_vocab,
    get_program_vocab,
    list_drum_vocabs,
    list_program_vocabs,
    program_name,
    representatives,
)

GOLDEN = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "golden" / "data_vocab.json.gz").read_bytes())
)


def test_vocabularies_equal_the_published_ones() -> None:
    evaluation = {
        name.removesuffix("_CLASS").removesuffix("_INSTR").lower(): classes
        for name, classes in GOLDEN["eval_classes"].items()
    }
    published = {**GOLDEN["program_vocabs"], **evaluation}
    assert list_program_vocabs() == sorted(published)
    for name, classes in published.items():
        assert [(k, list(v)) for k, v in get_program_vocab(name).items()] == list(classes.items())
    assert list_drum_vocabs() == sorted(GOLDEN["drum_vocabs"])
    for name, classes in GOLDEN["drum_vocabs"].items():
        assert [(k, list(v)) for k, v in get_drum_vocab(name).items()] == list(classes.items())


@pytest.mark.parametrize("name", sorted(GOLDEN["tasks"]))
def test_tasks_equal_the_published_ones(name: str) -> None:
    task, published = get_task(name), GOLDEN["tasks"][name]
    assert task.num_channels == published["channels"]
    assert (task.max_note_tokens or 1024) == published["max_len_per_ch"]
    mapping = representatives(get_program_vocab(task.program_vocab))
    assert {str(program): first for program, first in mapping.items()} == published["program_map"]
    channels = {str(program): channel for program, channel in task.program_channels().items()}
    assert channels == (published["program2channel"] or {})
    assert list(task.extra_tokens) == list(published["ranges"])[3 : 3 + len(task.extra_tokens)]


def test_own_tasks() -> None:
    assert set(list_tasks()) - set(GOLDEN["tasks"]) == {
        "mc13_fsingle",
        "mc13_fsingle_vocal",
        "mt3_full_plus_all_cross_final",
    }
    single, vocal = get_task("mc13_fsingle"), get_task("mc13_fsingle_vocal")
    assert single.num_channels == vocal.num_channels == 1
    assert len(get_program_vocab(single.program_vocab)) + 1 == 13
    assert (vocal.target_programs, vocal.transcribes_drums) == ((100, 101), False)
    assert replace(get_task("mt3_full_plus_all_cross_final"), name="mt3_full_plus") == get_task(
        "mt3_full_plus"
    )


@pytest.mark.parametrize("name", list_tasks())
def test_every_task_travels(name: str) -> None:
    task = get_task(name)
    assert task.name == name
    assert pickle.loads(pickle.dumps(task)) == task
    assert hash(task) == hash(replace(task))
    assert json.loads(json.dumps(asdict(task)))["name"] == name


def test_vocabularies_cannot_be_changed_from_outside() -> None:
    get_program_vocab("gm").clear()
    assert len(get_program_vocab("gm")) == 11
    assert class_names("gm_plus")[101] == "Singing Voice"


def test_every_program_has_a_name() -> None:
    names = [program_name(program) for program in range(129)]
    assert len(set(names)) == 129
    assert [names[i] for i in (0, 95, 96, 100, 101, 104, 127, 128)] == [
        *("Acoustic Grand Piano", "Pad 8 (sweep)", "FX 1 (rain)", "Singing Voice", "Singing Voice (chorus)"),
        *("Sitar", "Gunshot", "Drums"),
    ]
    for program, name in enumerate(get_program_vocab("gm_full")):
        assert names[program] == name


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="did you mean 'mc13_fsingle'"):
        get_task("mc13_fsingl")
    with pytest.raises(ValueError, match="program vocabulary 'gm_pluss'"):
        get_program_vocab("gm_pluss")
    with pytest.raises(ValueError, match="drum vocabulary"):
        get_drum_vocab("gmm")
    with pytest.raises(ValueError, match="channel 'Violins'"):
        Task("x", "gm", channels=("Violins",))
    with pytest.raises(ValueError, match="task token"):
        Task("x", "gm", subtasks={"default": SubTask(("transcribe",))})
    with pytest.raises(ValueError, match="sub-task of singing_v1 'singing'; did you mean 'singing-only'"):
        get_task("singing_v1").subtask("singing")


def test_sub_tasks_that_cannot_be() -> None:
    for subtasks, words in (
        ({"a": SubTask(("x",)), "b": SubTask(("x", "x"))}, "one length"),
        ({"a": SubTask(())}, "at least 1"),
        ({"a": SubTask(("x",), weight=0.0)}, "must be positive"),
    ):
        with pytest.raises(ValueError, match=words):
            Task("t", "gm", extra_tokens=("x",), subtasks=subtasks)


def test_sub_tasks_of_the_singing_tasks() -> None:
    assert get_task("mt3_full_plus").default_subtask is None
    for name in ("singing_v1", "singing_drum_v1", "exc_v1"):
        task = get_task(name)
        assert task.default_subtask == "default"
        assert not task.subtask("default").is_part
    parts = get_task("singing_drum_v1").subtasks
    singing, drums = parts["singing-only"], parts["drum-only"]
    assert (singing.target_programs, singing.transcribes_drums) == ((100, 101), False)
    assert (drums.target_programs, drums.transcribes_drums) == ((), True)


def test_what_of_the_targets_is_written() -> None:
    voices, all_programs = get_task("mc13_fsingle_vocal"), get_task("mc13_fsingle")
    assert voices.transcribed() == {100, 101}
    assert all_programs.transcribed() == {*range(129)}
    assert get_task("mc13_256").transcribed() == {*range(96), 100, 101, 128}, "a channel for each"
    assert get_task("singing_drum_v1").transcribed("drum-only") == {128}
    assert [likely_program(task.transcribed()) for task in (voices, all_programs)] == [100, 100]
    assert likely_program({33, 34}) == 33


def test_how_it_is_said_that_a_task_takes_nothing() -> None:
    text = none_taken_text("mc13_fsingle_vocal", {0: 7, 33: 1}, "song.mid")
    assert text == (
        "mc13_fsingle_vocal transcribes none of the 8 notes of song.mid (0 Acoustic Grand Piano: 7, "
        "33 Electric Bass (finger): 1)"
    )
    assert none_taken_text("x", {}, "song.mid") == "x transcribes none of the 0 notes of song.mid"
