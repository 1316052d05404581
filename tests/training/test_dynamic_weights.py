"""Draws that follow the validation scores of their data sets."""

import csv
import math
import warnings

import pytest

from amt.config.data import DynamicWeighting
from amt.data.module import TranscriptionData
from amt.model.checkpoint_file import read_checkpoint
from amt.tokenizer import NoteTokenizer
from amt.training.dynamic_weights import DynamicWeights

BOTH = {"data__presets": ["sines", "more"], "dataio__num_workers": 0}


@pytest.fixture(scope="module")
def two_sets(tiny, tmp_path_factory):
    home = tiny.make_store(tmp_path_factory.mktemp("two"))
    (home / "more").symlink_to(home / "sines")
    return home


def open_data(tiny, home, **changes):
    experiment = tiny.experiment(**{**BOTH, **changes})
    tokenizer = NoteTokenizer.from_experiment(experiment)
    return TranscriptionData(experiment, tokenizer, home)


def scores(sines, more):
    return {"validation/(sines)frame_f": sines, "validation/(more)frame_f": more}


def test_the_worse_set_is_drawn_more_often_within_limits(tiny, two_sets):
    data = open_data(tiny, two_sets)
    weights = DynamicWeights(DynamicWeighting(enabled=True, ema=0.5, momentum=0.5), data)
    logged = weights.observe(scores(0.8, 0.4), 0)
    # Errors 0.2 and 0.6, typical 0.4: wishes 0.5 and 1.5, half of the way from 1.
    assert weights.factors == pytest.approx({"sines": 0.75, "more": 1.25})
    assert logged == pytest.approx({"dataset_share/sines": 0.375, "dataset_share/more": 0.625})
    first = data.first_open_sample(0)
    assert data.weights.at(first - 1) is None
    assert data.weights.at(first) == pytest.approx([0.375, 0.625])
    weights.observe(scores(0.8, 0.0), 100)  # averaged: 0.8 and 0.2
    assert weights.means == pytest.approx({"sines": 0.8, "more": 0.2})
    assert weights.factors == pytest.approx({"sines": 0.375 + 0.2, "more": 0.625 + 0.8})
    for step in range(20):
        weights.observe(scores(1.0, 0.0), 200 + 100 * step)
    assert weights.factors == {"sines": 0.5, "more": pytest.approx(2.0, abs=0.01)}
    assert weights.factors["more"] <= 2.0


def test_a_set_without_a_score_keeps_its_factor(tiny, two_sets):
    data = open_data(tiny, two_sets)
    weights = DynamicWeights(DynamicWeighting(enabled=True), data)
    weights.observe({"validation/(sines)frame_f": 0.3, "validation/(more)frame_f": math.nan}, 0)
    assert weights.factors == {"sines": 1.0, "more": 1.0}
    weights.observe(scores(1.0, 1.0), 10)
    assert all(math.isfinite(factor) for factor in weights.factors.values())


def test_a_change_comes_after_the_last_one_also_where_the_loaders_are_less_far_ahead(tiny, two_sets):
    data = open_data(tiny, two_sets)
    weights = DynamicWeights(DynamicWeighting(enabled=True), data)
    weights.observe(scores(0.8, 0.4), 100)
    before = data.weights.state()
    logged = weights.observe(scores(0.8, 0.4), 6)  # of a start with fewer workers than the last one had
    added = data.weights.state()[len(before) :]
    assert added == [[before[0][0] + 1, *logged.values()]]


def test_one_data_set_is_refused(tiny, two_sets):
    with pytest.raises(ValueError, match=r"AMT_DYNAMIC_DATASET_WEIGHTING .* name several presets"):
        DynamicWeights(DynamicWeighting(enabled=True), open_data(tiny, two_sets, data__presets=["sines"]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "frame"}, "frame_f"),
        ({"ema": 1.0}, "_EMA"),
        ({"momentum": -0.1}, "_MOMENTUM"),
        ({"min_factor": 0.0}, "_MIN"),
        ({"max_factor": 0.9}, "_MAX"),
    ],
)
def test_bad_settings_name_their_variable(settings, message):
    with pytest.raises(ValueError, match=message):
        DynamicWeighting(**settings)


def test_a_resumed_run_draws_and_weighs_as_the_unbroken_one(tiny, two_sets, tmp_path, monkeypatch):
    observe = DynamicWeights.observe

    def observe_something(self, values, consumed):  # so young a network scores 0 on everything
        return observe(self, {**values, **scores(consumed / 20, 0.3)}, consumed)

    monkeypatch.setattr(DynamicWeights, "observe", observe_something)
    changes = {
        **BOTH,
        "dynamic_dataset_weighting__enabled": True,
        "dynamic_dataset_weighting__ema": 0.0,
        "dynamic_dataset_weighting__momentum": 0.0,
        "trainer__val_interval": 2,
        "lr_schedule__name": "constant",
    }

    def go(folder, steps, **resume):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert tiny.train(folder, two_sets, **resume, **changes, trainer__max_steps=steps) == 0
        return folder / "checkpoints" / "last.ckpt"

    def rows(folder, column):
        with open(folder / "metrics.csv", newline="") as file:
            return {int(row["step"]): row[column] for row in csv.DictReader(file) if row.get(column)}

    whole, parts = tmp_path / "p" / "whole", tmp_path / "p" / "parts"
    go(whole, 8)
    last = go(parts, 4)
    go(parts, 8, checkpoint=last, kind="resume", step=4)
    states = [read_checkpoint(folder / "checkpoints" / "last.ckpt")["amt_state"] for folder in (whole, parts)]
    assert states[0]["data_weights"] == states[1]["data_weights"]
    assert len({tuple(row) for row in states[0]["data_weights"]["table"]}) == 4
    for column in ("train_loss", "dataset_share/sines", "dataset_share/more"):
        assert rows(whole, column) == rows(parts, column)
        assert len(rows(whole, column)) >= 4
