"""The progress line, in a terminal and in a log file."""

import io
from types import SimpleNamespace

import pytest
import torch

from amt.training import progress
from amt.training.module import TranscriptionModule
from amt.training.plan import RunPlan
from amt.training.steps import StepReport


@pytest.fixture
def module(monkeypatch):
    module = TranscriptionModule.__new__(TranscriptionModule)
    torch.nn.Module.__init__(module)
    module.plan = RunPlan(1, 16, 100, 200, 0.0)
    module.clock = SimpleNamespace(elapsed=0.0)
    module.guard = SimpleNamespace(num_dropped=0)
    module.report = None
    module.last_score = None
    monkeypatch.setattr(TranscriptionModule, "global_step", 0)
    return module


def trainer(**changes):
    values = {"is_global_zero": True, "should_stop": False, "sanity_checking": False, "callback_metrics": {}}
    return SimpleNamespace(**{**values, **changes})


def run(module, line, steps, seconds_per_step):
    now = [0.0]
    line._now = lambda: now[0]
    line.on_train_start(trainer(), module)
    for step in range(1, steps + 1):
        now[0] += seconds_per_step
        module.clock.elapsed = now[0]
        module.report = StepReport(step, 2.0, 1e-3, 0.5, False)
        line.on_train_batch_end(trainer(), module, None, None, step - 1)
    line.on_train_end(trainer(), module)


def test_plain_lines_come_every_ten_seconds(module):
    stream = io.StringIO()
    module.last_score = 0.9312
    run(module, progress.ProgressLine(stream), steps=100, seconds_per_step=0.5)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 5  # 50 seconds; the end was just shown
    assert lines[0] == ("train step 20/200  loss 2.0000  lr 1.00e-03  32.0 segments/s  left 1:30  F1 0.9312")


def test_other_ranks_say_nothing(module):
    stream = io.StringIO()
    line = progress.ProgressLine(stream)
    silent = trainer(is_global_zero=False)
    line.on_train_start(silent, module)
    module.report = StepReport(1, 2.0, 1e-3, 0.5, False)
    line.on_train_batch_end(silent, module, None, None, 0)
    line.on_validation_end(silent, module)
    line.on_train_end(silent, module)
    assert stream.getvalue() == ""


def test_a_skipped_step_shows_as_zero(module):
    stream = io.StringIO()
    line = progress.ProgressLine(stream)
    line.on_train_start(trainer(), module)
    module.guard.num_dropped = 3
    module.report = StepReport(1, 0.0, 1e-3, 0.0, True)
    line.on_train_end(trainer(), module)
    assert "loss 0.0000" in stream.getvalue()
    assert "skipped 3" in stream.getvalue()


def test_the_bar_in_a_terminal(module):
    stream = io.StringIO()
    line = progress.ProgressLine(stream, live=True)
    run(module, line, steps=10, seconds_per_step=0.5)
    assert "10/200" in stream.getvalue()


@pytest.mark.parametrize(
    ("columns", "bar", "shown", "left_out"),
    [
        (200, True, ["step 10/200", "loss", "lr", "segments/s", "left", "F1", "skipped 3"], []),
        (80, False, ["step 10/200", "loss", "left", "F1 0.9312", "skipped 3"], ["segments/s"]),
        (44, False, ["step 10/200", "loss", "F1 0.9312"], ["segments/s", "lr", "left", "skipped"]),
    ],
)
def test_a_narrow_terminal_keeps_what_matters(module, monkeypatch, columns, bar, shown, left_out):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    module.last_score, module.guard.num_dropped = 0.9312, 3
    run(module, progress.ProgressLine(stream, live=True), steps=10, seconds_per_step=0.5)
    last = stream.getvalue().splitlines()[-1]
    assert last.startswith("train ")
    assert all(part in last for part in shown)
    assert not any(part in last for part in [*left_out, "…"])
    assert ("━" in last) == bar


def test_validation_scores_have_a_line(module):
    stream = io.StringIO()
    metrics = {"validation/macro_onset_f": torch.tensor(0.75), "val_loss": torch.tensor(1.5)}
    progress.ProgressLine(stream).on_validation_end(trainer(callback_metrics=metrics), module)
    assert stream.getvalue() == "validation  step 0  onset F1 0.7500  loss 1.5000\n"


def test_a_long_validation_shows_how_far_it_is(module):
    now, stream = [0.0], io.StringIO()
    line = progress.ProgressLine(stream, now=lambda: now[0])
    watched = trainer(num_val_batches=[4])
    line.on_validation_start(watched, module)
    for number in range(4):
        now[0] += 7.0
        line.on_validation_batch_end(watched, module, None, None, number)
    assert stream.getvalue().splitlines() == ["validating 2/4 songs, 0:14", "validating 4/4 songs, 0:28"]


def test_a_time_budget_counts_down(module):
    module.plan = RunPlan(1, 16, 100, None, 600.0)
    stream = io.StringIO()
    run(module, progress.ProgressLine(stream), steps=20, seconds_per_step=1.0)
    assert "step 10 " in stream.getvalue()
    assert "left 9:50" in stream.getvalue()


def test_times():
    assert [progress.format_seconds(seconds) for seconds in (5, 65, 3723)] == ["0:05", "1:05", "1:02:03"]
