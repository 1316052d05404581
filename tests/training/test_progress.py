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
    module.validator = SimpleNamespace()
    monkeypatch.setattr(TranscriptionModule, "global_step", 0)
    return module


def trainer(**changes):
    values = {"is_global_zero": True, "should_stop": False, "sanity_checking": False, "callback_metrics": {}}
    values |= {"world_size": 1, "num_val_batches": [4]}
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
    line.on_validation_start(trainer(), module)
    assert stream.getvalue() == "validation  step 0  4 songs\n"
    for done in range(1, 5):
        now[0] += 16.0
        module.validator.on_progress(done)
    assert stream.getvalue().splitlines()[1:] == ["validating 2/4 songs, 0:32", "validating 4/4 songs, 1:04"]


def test_a_validation_on_two_ranks_counts_the_songs_of_one(module):
    stream = io.StringIO()
    line = progress.ProgressLine(stream)
    line.on_validation_start(trainer(world_size=2), module)
    assert stream.getvalue() == "validation  step 0  4 songs on each rank\n"


def test_the_bar_shows_the_training_again_after_a_validation(module):
    """How far the validation was must not stay on the screen, not even when it was the last thing done."""
    now, stream = [0.0], io.StringIO()
    line = progress.ProgressLine(stream, live=True, now=lambda: now[0])
    line.on_train_start(trainer(), module)
    module.report = StepReport(7, 2.0, 1e-3, 0.5, False)
    line.on_train_batch_end(trainer(should_stop=True), module, None, None, 6)
    line.on_validation_start(trainer(), module)
    now[0] += 3.0
    module.validator.on_progress(3)
    assert line._bar.tasks[0].fields["text"] == "validating 3/4 songs, 0:03"
    line.on_validation_end(trainer(), module)
    assert line._bar.tasks[0].fields["text"].startswith("step 7/200 ")
    line.on_train_end(trainer(), module)
    assert "validating" not in stream.getvalue().splitlines()[-1]


def test_a_time_budget_counts_down(module):
    module.plan = RunPlan(1, 16, 100, None, 600.0)
    stream = io.StringIO()
    run(module, progress.ProgressLine(stream), steps=20, seconds_per_step=1.0)
    assert "step 10 " in stream.getvalue()
    assert "left 9:50" in stream.getvalue()


def test_times():
    assert [progress.format_seconds(seconds) for seconds in (5, 65, 3723)] == ["0:05", "1:05", "1:02:03"]
