"""What samples say of themselves: sub-tasks, instruments nobody annotated, notes without a class."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from amt.config import AudioConfig, Augmentation
from amt.config.tasks import get_task
from amt.data.batch import Batch
from amt.data.classes import class_remarks, nothing_to_score
from amt.data.dataset import EvaluationSongs, collate_samples
from amt.data.scored import ScoredSet
from amt.data.segments import SegmentMaker, TrainingSet
from amt.data.songs import TaskView
from amt.data.store import SongStore, StoreWriter
from amt.notes.note import DRUM_PROGRAM, NOTE_DTYPE, notes_to_array
from amt.tokenizer import NoteTokenizer

AUDIO = AudioConfig(segment_samples=24_000)
OFF = Augmentation(amp_range=(1.0, 1.0), stem_keep_prob=1.0, xaug_max_k=0, pitch_shift_range=(0.0, 0.0))


def tokenizer(task: str) -> NoteTokenizer:
    return NoteTokenizer.from_task(task, segment_samples=AUDIO.segment_samples, max_length=512)


def maker(store: SongStore, task: str, augmentation: Augmentation = OFF) -> SegmentMaker:
    sets = [TrainingSet(store.name, store, ("train",))]
    return SegmentMaker(sets, tokenizer(task), AUDIO, augmentation, seed=1, sub_batch=4)


def programs_of(notes: Any) -> set[int]:
    return set(np.where(notes["is_drum"], DRUM_PROGRAM, notes["program"]).tolist())


SUBTASK_PROGRAMS = {"default": {0, 33, 100, 128}, "singing-only": {100}, "drum-only": {128}}


def test_samples_draw_their_sub_task_and_hold_only_its_notes(tones: SongStore) -> None:
    tok = tokenizer("singing_drum_v1")
    make = maker(tones, "singing_drum_v1")
    drawn: Counter[str] = Counter()
    for number in range(80):
        sample = make.make(number)
        assert sample.subtask is not None
        drawn[sample.subtask] += 1
        prefix = tok.prefix_ids(sample.subtask)
        assert sample.labels[0, : len(prefix)].tolist() == prefix
        heard = programs_of(notes_to_array(tok.decode(sample.labels[None], start_from_ties=True).notes))
        assert heard <= SUBTASK_PROGRAMS[sample.subtask]
        expected = tok.encode_window(tok.subtask_notes(sample.notes, sample.subtask), subtask=sample.subtask)
        np.testing.assert_array_equal(sample.labels, expected)
        # The frame head hears all instruments, whatever is asked for.
        if programs_of(sample.notes) - SUBTASK_PROGRAMS[sample.subtask]:
            drawn["more heard than asked for"] += 1
    assert all(drawn[name] > 8 for name in SUBTASK_PROGRAMS)
    assert drawn["default"] > drawn["singing-only"]
    assert drawn["more heard than asked for"] > 15


def test_the_voice_is_kept_where_only_singing_is_asked_for(tones: SongStore) -> None:
    make = maker(tones, "singing_v1", replace(OFF, stem_keep_prob=0.15))
    asked = 0
    for number in range(60):
        sample = make.make(number)
        if sample.subtask == "singing-only":
            asked += 1
            undisturbed = maker(tones, "mc13_fsingle_vocal").make(number)  # the same song and place
            assert sample.labels.shape[1] - 2 == undisturbed.labels.shape[1]
    assert asked > 5


def test_sub_tasks_follow_what_is_annotated(make_store: Any) -> None:
    """The rule of the published system, which never ran: a song with unannotated parts asks for singing."""
    singing = make_store([100, -1], unannotated=[129], name="singing")
    assert {maker(singing, "singing_v1").make(n).subtask for n in range(12)} == {"singing-only"}
    sample = maker(singing, "singing_v1").make(0)
    assert sample.channel_annotated.tolist() == sample.channel_complete.tolist() == [True]
    assert not sample.fully_annotated  # the frame head would hear the rest as silence
    drums = make_store([128, -1], unannotated=[129], name="drums")
    assert {maker(drums, "singing_drum_v1").make(n).subtask for n in range(12)} == {"drum-only"}
    piano = make_store([0, -1], unannotated=[129], name="piano")
    sample = maker(piano, "singing_drum_v1").make(0)
    assert sample.subtask == "default"
    assert (sample.channel_annotated.tolist(), sample.channel_complete.tolist()) == ([True], [False])
    no_voice = make_store([0, 128], name="instrumental")
    assert {maker(no_voice, "singing_v1").make(n).subtask for n in range(12)} == {"default"}


def test_other_tasks_have_no_sub_task_and_the_same_labels(tones: SongStore) -> None:
    sample, plain = maker(tones, "singing_v1").make(5), maker(tones, "mt3_full_plus").make(5)
    assert plain.subtask is None
    assert plain.labels[0, 0] != tokenizer("singing_v1").prefix_ids("default")[0]
    np.testing.assert_array_equal(sample.audio, plain.audio)


def test_an_instrument_marked_unannotated_is_masked_in_its_channel(make_store: Any) -> None:
    """A violin plays without notes: its channel teaches nothing, the others all they hold."""
    store = make_store([0, 100, -1], unannotated=[40])
    task = get_task("mc13_256")
    sample = maker(store, "mc13_256").make(0)
    strings = task.program_channels()[40]
    assert task.channels[strings] == "Strings"
    assert np.flatnonzero(~sample.channel_annotated).tolist() == [strings]
    assert np.flatnonzero(~sample.channel_complete).tolist() == [strings]
    batch = collate_samples([sample, sample], tokenizer("mc13_256"), 1.5)
    assert batch.channel_annotated.shape == batch.channel_complete.shape == (2, 13)
    assert batch.fully_annotated is not None
    assert batch.fully_annotated.tolist() == [False, False]
    # In one stream notes of the others are true, silence is not.
    single = maker(store, "mt3_full_plus").make(0)
    assert (single.channel_annotated.tolist(), single.channel_complete.tolist()) == ([True], [False])
    # Where the fine classes tell viola from violin, only the violin is unknown.
    fine = maker(make_store([41, -1], unannotated=[40], name="fine"), "mc13_full_plus_256").make(0)
    assert fine.channel_annotated.all()
    assert np.flatnonzero(~fine.channel_complete).tolist() == [strings]


def test_known_songs_say_so(tones: SongStore) -> None:
    for task in ("mc13_256", "mt3_full_plus", "singing_v1", "mc13_fsingle_vocal"):
        sample = maker(tones, task).make(3)
        assert sample.channel_annotated.all()
        assert sample.channel_complete.all()
        assert sample.fully_annotated
        assert collate_samples([sample], tokenizer(task), 1.5).fully_annotated is None


def test_masks_and_counts_travel_between_processes(make_store: Any) -> None:
    store = make_store([0, -1], unannotated=[40])
    short = NoteTokenizer.from_task("mt3_full_plus", segment_samples=24_000, max_length=10)
    sets = [TrainingSet(store.name, store, ("train",))]
    make = SegmentMaker(sets, short, AUDIO, OFF, seed=1, sub_batch=4)
    samples = [make.make(number) for number in range(4)]
    batch = collate_samples(samples, short, 1.5)
    assert int(batch.num_truncated) == sum(sample.num_truncated for sample in samples) > 0
    copy = Batch.__new__(Batch)
    copy.__setstate__(batch.__getstate__())
    assert copy.fully_annotated is not None
    assert copy.fully_annotated.tolist() == [False] * 4
    assert copy.channel_complete.tolist() == [[False]] * 4
    assert int(copy.num_truncated) == int(batch.num_truncated)


def test_songs_to_validate_ask_for_what_is_annotated(make_store: Any) -> None:
    tok = tokenizer("singing_v1")

    def item(store: SongStore) -> Any:
        return EvaluationSongs([ScoredSet("set", store, "train", None)], tok, AUDIO)[0]

    known = item(make_store([0, 100], name="known", seconds=5.5))
    assert known.subtask == "default"
    assert known.known_programs is None
    assert (known.labels[:, 0, :2].numpy() == tok.prefix_ids("default")).all()
    assert programs_of(known.notes) == {0, 100}
    assert (known.num_samples, known.audio.numel()) == (88_000, 4 * 24_000)  # without and with padding
    partly = item(make_store([0, 100, -1], name="partly", unannotated=[40]))
    assert partly.subtask == "singing-only"
    assert (partly.labels[:, 0, :2].numpy() == tok.prefix_ids("singing-only")).all()
    assert programs_of(partly.notes) == {100}
    assert partly.known_programs is not None
    assert not partly.known_programs[40]
    assert partly.known_programs[[0, 100]].all()


def test_known_programs_go_by_class() -> None:
    view = TaskView(get_task("mc13_fsingle"))
    all_known = view.known_programs([], frozenset({0}))
    assert all_known.all()
    violin = view.known_programs([40], frozenset({0, 41}))
    assert np.flatnonzero(~violin).tolist() == list(range(40, 56))
    rest = view.known_programs([129], frozenset({1, 128}))
    assert np.flatnonzero(rest).tolist() == [*range(8), 128]


def test_notes_without_a_class_are_counted_and_named(make_store: Any) -> None:
    store = make_store([0, 104, 120], songs=2)
    sets = [TrainingSet("own", store, ("train",))]
    counts = store.notes_by_program("train")
    assert set(counts) == {0, 104, 120}
    assert counts.total() == sum(store.index("train")["num_notes"])
    (line,) = class_remarks(sets, tokenizer("mc13_256"))
    assert f"own: {counts[104] + counts[120]} of {counts.total()} notes" in line
    assert "in no class of mc13_256 and are left out" in line
    assert f"104 Sitar: {counts[104]}" in line
    assert f"120 Guitar Fret Noise: {counts[120]}" in line
    (line,) = class_remarks(sets, tokenizer("mt3_full_plus"))
    assert "are written with their own program" in line
    (line,) = class_remarks(sets, tokenizer("mc13_fsingle_vocal"))
    assert "in no class" not in line
    # A store of an earlier version does not hold the counts: they are made from the notes.
    header = json.loads((store.path / "store.json").read_text())
    del header["splits"]["train"]["notes_by_program"]
    (store.path / "store.json").write_text(json.dumps(header))
    older = SongStore.open(store.path)
    assert older.notes_by_program("train") == counts


def test_data_without_a_target_note_are_pointed_out(make_store: Any) -> None:
    sets = [TrainingSet("own", make_store([0, 128], songs=2), ("train",))]
    counts = sets[0].store.notes_by_program("train")
    (line,) = class_remarks(sets, tokenizer("mc13_fsingle_vocal"))
    assert f"mc13_fsingle_vocal transcribes none of the {counts.total()} notes" in line
    assert f"0 Acoustic Grand Piano: {counts[0]}" in line
    assert "amt-prepare folder ... --program 100 --overwrite" in line
    assert line.endswith("; -tk chooses another task, -d other data")
    (line,) = class_remarks([replace(sets[0], name="slakh")], tokenizer("mc13_fsingle_vocal"))
    assert "--program" not in line  # of a preset, which its own command prepares
    assert class_remarks(sets, tokenizer("mc13_fsingle")) == []
    band = TrainingSet("band", make_store([0, 33], songs=2, name="band"), ("train",))
    (line,) = class_remarks([band], tokenizer("mc13_fsingle_vocal"))
    assert "--program" not in line  # it would make all of them sing
    sung = TrainingSet("sung", make_store([100], name="sung"), ("train",))
    # beside songs that the task can learn from it teaches silence, which nobody may have meant
    (line,) = class_remarks([*sets, sung, band], tokenizer("mc13_fsingle_vocal"))
    assert line.startswith("mc13_fsingle_vocal transcribes no note of own (0 Acoustic Grand Piano: ")
    assert "), band (" in line
    assert "if those of own are " in line
    assert "those of band" not in line
    assert "amt-prepare folder ... --program 100 --overwrite" in line
    assert class_remarks([sung], tokenizer("mc13_fsingle_vocal")) == []
    with StoreWriter(sung.store.path.parent / "silence", "silence") as writer:
        stems = np.ones((1, 16000), dtype=np.int16)
        writer.add_song("train", "s", stems, [[0]], ["mix"], np.zeros(0, dtype=NOTE_DTYPE))
    silence = TrainingSet("silence", SongStore.open(sung.store.path.parent / "silence"), ("train",))
    assert class_remarks([sung, silence], tokenizer("mc13_fsingle_vocal")) == []  # without a note: meant


def test_notes_that_no_channel_writes_are_nothing_to_learn(make_store: Any) -> None:
    store = make_store([104], songs=2)
    strange, nothing = class_remarks([TrainingSet("own", store, ("train",))], tokenizer("mc13_256"))
    assert "in no class of mc13_256 and are left out" in strange
    assert nothing.startswith("nothing to learn: mc13_256 transcribes none of the ")
    (strange,) = class_remarks([TrainingSet("own", store, ("train",))], tokenizer("mc13_fsingle"))
    assert "are written with their own program" in strange


def test_a_set_without_a_note_to_score_says_what_it_has() -> None:
    task = get_task("singing_v1")
    text = nothing_to_score("own_test", "own", {0: 7, 128: 2}, task, "singing-only")
    assert text.startswith(
        "nothing to score in own_test: singing_v1 (singing-only) transcribes none of the 9 notes of its "
        "songs (0 Acoustic Grand Piano: 7, 128 Drums: 2); if they are Singing Voice, prepare the data again "
        "with --program 100"
    )
    assert text.endswith("; -d chooses other data; the task is that of the checkpoint (without one, -tk)")
    assert "--program" not in nothing_to_score("slakh", "slakh", {0: 7}, task, "singing-only")
    assert "--program" not in nothing_to_score("own", "own", {0: 7, 33: 1}, task, "singing-only")
    assert "singing_v1 (singing-only) written down in part only" in nothing_to_score(
        "own", "own", {100: 4}, task, "singing-only"
    )


def test_many_programs_without_a_class_are_not_all_named(make_store: Any) -> None:
    store = make_store(list(range(102, 114)), seconds=2.0)
    line, _ = class_remarks([TrainingSet("own", store, ("train",))], tokenizer("mc13_256"))
    assert line.endswith("and 4 more)")


@pytest.mark.parametrize("task", ["singing_v1", "singing_drum_v1", "exc_v1"])
def test_labels_with_a_prefix_fit_the_longest_bucket(tones: SongStore, task: str) -> None:
    tok = NoteTokenizer.from_task(task, segment_samples=24_000, max_length=16)
    sets = [TrainingSet("tones", tones, ("train",))]
    make = SegmentMaker(sets, tok, AUDIO, OFF, seed=1, sub_batch=4)
    batch = collate_samples([make.make(number) for number in range(8)], tok, 1.5)
    assert batch.labels.shape[2] <= tok.sequence_length
    assert (batch.labels == tok.eos_id).sum() == 8
