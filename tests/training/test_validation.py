"""Validation: the same numbers for any number of ranks; nothing one song does harms the others."""

import math
import threading
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from pytorch_lightning.utilities import rank_zero_only

from amt.config import get_task
from amt.data.batch import ValidationItem
from amt.data.scored import ScoredSet, scoring_of
from amt.evaluation import Scoring, score_notes
from amt.notes import NOTE_DTYPE, Note, notes_to_array
from amt.tokenizer import NoteTokenizer
from amt.training.validation import Validator

SAMPLES = 8000
VOICE = {"Singing Voice": (100, 101)}


@pytest.fixture(scope="module")
def tokenizer():
    return NoteTokenizer.from_task("mc13_fsingle_vocal", segment_samples=SAMPLES, max_length=64)


class Parrot:
    """A network that knows the answers: a window's first sample is the row of ids it gives."""

    def __init__(self, rows, vocab_size):
        self.rows = rows
        self.vocab_size = vocab_size
        self.batches = []

    def encode(self, audio):
        return audio

    def decode_logits(self, encoded, labels):
        return torch.zeros(*labels.shape, self.vocab_size)

    def decode_greedily(self, encoded, prefix=None):
        self.batches.append(len(encoded))
        return self.rows[encoded[:, 0, 0].long()]


def make_items(tokenizer, count):
    """Songs of different lengths; the parrot misses some windows of some songs."""
    rng = np.random.default_rng(0)
    items, rows = [], []
    for number in range(count):
        windows = int(rng.integers(1, 5))
        notes = notes_to_array(
            [
                Note(onset, onset + 0.2, int(rng.integers(50, 80)), 100)
                for onset in np.arange(0.05, windows * 0.5 - 0.3, 0.3)
            ]
        )
        labels = torch.from_numpy(tokenizer.encode(notes, num_windows=windows))
        audio = torch.zeros(windows, 1, SAMPLES)
        for window in range(windows):
            audio[window, 0, 0] = len(rows)
            answer = labels[window].clone()
            if rng.random() < 0.3:
                answer[:] = tokenizer.pad_id
                answer[:, :2] = torch.tensor([tokenizer.tie_id, tokenizer.eos_id])
            rows.append(answer)
        length = windows * SAMPLES - int(rng.integers(0, SAMPLES // 4))  # the rest is padding
        trimmed = labels[..., : 32 + 16 * (number % 2)]  # as the data path trims each song
        assert not labels[..., 32:].any()
        items.append(ValidationItem(True, number % 2, f"song{number}", audio, trimmed, notes, length))
    return items, torch.stack(rows)


def empty_item(tokenizer):
    labels = torch.zeros(0, 1, tokenizer.max_length, dtype=torch.int64)
    return ValidationItem(False, 0, "", torch.zeros(0, 1, SAMPLES), labels, np.zeros(0, NOTE_DTYPE), 0)


def validate(tokenizer, items, rows, world_size, monkeypatch, batch_size=4):
    """The values each of ``world_size`` ranks gives; ranks are threads that meet in a sum."""
    barrier = threading.Barrier(world_size)
    shared = []

    def all_reduce(tensor):
        shared.append(tensor.clone())
        barrier.wait()
        tensor.copy_(torch.stack(shared).sum(0))
        barrier.wait()

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    results = [None] * world_size
    places = items + [empty_item(tokenizer)] * (-len(items) % world_size)

    def run(rank):
        model = Parrot(rows, tokenizer.vocab_size)
        sets = {"a": Scoring(VOICE), "b": Scoring(VOICE)}
        validator = Validator(model, tokenizer, sets, batch_size=batch_size, world_size=world_size)
        for item in places[rank::world_size]:
            validator.add(item)
        results[rank] = validator.finish()
        assert all(size <= batch_size for size in model.batches)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


@pytest.mark.parametrize("songs", [1, 3, 7])
def test_any_number_of_ranks_gives_the_same(tokenizer, songs, monkeypatch):
    items, rows = make_items(tokenizer, songs)
    (alone,) = validate(tokenizer, items, rows, 1, monkeypatch)
    assert 0 < alone["validation/macro_onset_f"] <= 1
    for world_size in (2, 3):
        for values in validate(tokenizer, items, rows, world_size, monkeypatch):
            assert values == alone


def test_songs_that_are_done_are_counted_while_the_last_batches_are_decoded(tokenizer):
    """Short songs wait until all are read, so that counting those would show nothing for a long time."""
    items, rows = make_items(tokenizer, 5)
    validator = Validator(Parrot(rows, tokenizer.vocab_size), tokenizer, {"a": Scoring(VOICE)}, batch_size=4)
    done = []
    validator.on_progress = done.append
    for _ in range(2):  # each validation counts anew
        validator.start(nullcontext, torch.device("cpu"))
        for item in items:
            validator.add(replace(item, set_index=0))
        validator.finish()
    once = done[: len(done) // 2]
    assert done == once * 2
    assert once == sorted(once)
    assert (len(once), once[-1]) == (-(-len(rows) // 4), 5)


def test_values_are_means_over_files(tokenizer, monkeypatch):
    items, rows = make_items(tokenizer, 6)
    (values,) = validate(tokenizer, items, rows, 1, monkeypatch, batch_size=5)
    scores = {0: [], 1: []}
    first = 0
    for item in items:
        estimate = tokenizer.decode(rows[first : first + len(item.audio)].numpy()).notes
        first += len(item.audio)
        scores[item.set_index].append(score_notes(item.notes, estimate, VOICE)["onset_f"])
    assert 0.3 < np.mean(scores[0] + scores[1]) < 1
    assert values["validation/macro_onset_f"] == pytest.approx(np.mean(scores[0] + scores[1]))
    assert values["validation/(a)onset_f"] == pytest.approx(np.mean(scores[0]))
    assert values["validation/(b)onset_f"] == pytest.approx(np.mean(scores[1]))
    assert values["val_loss"] == pytest.approx(np.log(tokenizer.vocab_size), rel=1e-5)


def test_counts_are_pooled_and_the_melody_lasts_as_long_as_the_audio(tokenizer, monkeypatch):
    items, rows = make_items(tokenizer, 6)
    (values,) = validate(tokenizer, items, rows, 1, monkeypatch)
    pooled, accuracy = None, []
    first = 0
    for item in items:
        estimate = tokenizer.decode(rows[first : first + len(item.audio)].numpy()).notes
        first += len(item.audio)
        seconds = item.num_samples / 16000
        assert item.num_samples < len(item.audio) * SAMPLES
        counts = Scoring(VOICE).counts(item.notes, estimate, duration=seconds)
        assert counts.melodies["Singing Voice"].num_frames == math.ceil(round(seconds * 100, 6))
        accuracy.append(counts.scores()["melody_oa_Singing Voice"])
        pooled = counts if pooled is None else pooled + counts
    for key in ("onset_f", "offset_f", "frame_f", "multi_f"):
        assert values[f"validation/micro_{key}"] == pytest.approx(pooled.notes[key].f)
    assert values["validation/micro_onset_f"] != pytest.approx(values["validation/macro_onset_f"])
    assert values["validation/macro_melody_oa_Singing Voice"] == pytest.approx(np.mean(accuracy))
    assert "validation/micro_onset_f_drum" not in values


def test_a_set_is_scored_by_its_own_classes_or_the_task_s():
    task = get_task("mc13_full_plus_256")
    hits = [Note(0.0, 0.01, 40, 128, True)], [Note(0.0, 0.01, 38, 128, True)]  # two pitches of the snare
    default = scoring_of(ScoredSet("a", None, "test", None), task)
    assert list(default.vocab)[:2] == ["Piano", "Chromatic Percussion"]
    assert default.counts(*hits).scores()["onset_f_drum"] == 1.0
    own = scoring_of(ScoredSet("a", None, "test", "bass_solo", "egmd", ("Bass", "Piano")), task)
    assert own.keys(strict=False)[-2:] == ["onset_f_Bass_pc", "offset_f_Bass_pc"]
    assert np.isnan(own.counts(*hits).scores()["onset_f_drum"])


def test_the_names_are_known_before_the_first_song(tokenizer, monkeypatch):
    items, rows = make_items(tokenizer, 3)
    (values,) = validate(tokenizer, items, rows, 1, monkeypatch)
    model = Parrot(rows, tokenizer.vocab_size)
    keys = Validator(model, tokenizer, {"a": Scoring(VOICE), "b": Scoring(VOICE)}, batch_size=4).keys()
    assert set(values) <= keys | {"val_loss"}
    for key in (
        "macro_onset_f",
        "macro_onset_f_strict",
        "macro_offset_f",
        "macro_onset_f_drum",
        "(a)frame_f_pc",
    ):
        assert f"validation/{key}" in keys
    assert "validation/macro_melody_rca_Singing Voice" in keys


def test_windows_of_several_songs_share_batches(tokenizer):
    items, rows = make_items(tokenizer, 6)
    model = Parrot(rows, tokenizer.vocab_size)
    validator = Validator(model, tokenizer, {"a": Scoring(VOICE), "b": Scoring(VOICE)}, batch_size=4)
    for item in items:
        validator.add(item)
    validator.finish()
    assert sum(model.batches) == len(rows)
    assert set(model.batches[:-1]) == {4}


def test_a_song_that_cannot_be_scored_is_left_out(tokenizer, monkeypatch):
    items, rows = make_items(tokenizer, 4)
    whole = validate(tokenizer, [items[0], items[2], items[3]], rows, 1, monkeypatch)[0]
    items[1].notes = np.zeros(3)  # not a note array
    with pytest.warns(UserWarning, match="song1 could not be scored"):
        values = validate(tokenizer, items, rows, 1, monkeypatch)[0]
    del values["val_loss"], whole["val_loss"]
    assert values == whole


def test_a_bad_song_of_another_rank_is_named_too(tokenizer, monkeypatch, capsys):
    items, rows = make_items(tokenizer, 2)
    items[1].notes = np.zeros(3)  # not a note array
    monkeypatch.setattr(rank_zero_only, "rank", 3)
    validate(tokenizer, items, rows, 1, monkeypatch)
    assert "warning on rank 3: validation: song1 could not be scored: " in capsys.readouterr().err


def test_outputs_are_written_and_failures_only_reported(tokenizer, monkeypatch):
    items, rows = make_items(tokenizer, 3)
    written, reports = [], []

    def write(song_id, set_name, step, notes):
        if song_id == "song1":
            raise OSError("disk full")
        written.append((song_id, set_name, step, len(notes) > 0))

    monkeypatch.setattr("amt.training.validation.warn_of_own", reports.append)
    validator = Validator(
        Parrot(rows, tokenizer.vocab_size),
        tokenizer,
        {"a": Scoring(VOICE), "b": Scoring(VOICE)},
        batch_size=4,
        write_output=write,
    )
    for item in items:
        validator.add(item, step=7)
    validator.finish(7)
    validator.close()
    assert len(reports) == 1
    assert "disk full" in reports[0]
    assert [(song, name, step) for song, name, step, _ in written] == [("song0", "a", 7), ("song2", "a", 7)]
