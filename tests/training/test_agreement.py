"""Ranks that were started for different runs are told so before the first step."""

from types import SimpleNamespace

import pytest
import torch.distributed as dist

from amt.data.module import TranscriptionData
from amt.tokenizer import NoteTokenizer
from amt.training.agreement import Agreement, OtherRun, describe_run, differences


@pytest.fixture
def described(tiny, sines):
    """``described(**changes)`` is what a rank of the tiny run with these settings says of itself."""

    def describe(data_home=sines, more=None, **changes):
        experiment = tiny.experiment(**changes)
        data = TranscriptionData(experiment, NoteTokenizer.from_experiment(experiment), data_home)
        return describe_run(experiment, data, more or {})

    return describe


def meet(monkeypatch, *ranks):
    def gather(found, own):
        assert own == dict(ranks[0])
        found[:] = ranks

    monkeypatch.setattr(dist, "all_gather_object", gather)
    Agreement(ranks[0], len(ranks)).setup(SimpleNamespace(), SimpleNamespace(), "fit")


def test_the_same_run_on_unlike_machines(described, monkeypatch):
    other = described(dataio__num_workers=7, trainer__num_threads=3, wandb__mode="offline")
    meet(monkeypatch, described(), other, described())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"checkpoint__save_before_val": True}, r"checkpoint.save_before_val is False on rank 0 and True on"),
        ({"lr_schedule__warmup_steps": 7}, "lr_schedule.num_warmup_steps|lr_schedule.warmup_steps"),
        ({"more": {"AMT_FAULT": "nan@1:0"}}, "AMT_FAULT is missing on rank 0 and 'nan@1:0' on rank 2"),
        ({"seed": 6}, "seed is 5 on rank 0 and 6 on rank 2"),
    ],
)
def test_a_difference_is_named_with_its_rank(described, monkeypatch, changes, said):
    with pytest.raises(OtherRun, match="rank 2 was started for another run than rank 0") as caught:
        meet(monkeypatch, described(), described(), described(**changes))
    assert caught.match(said)
    assert caught.match("AMT_ variables")


def test_other_songs_of_the_same_name(tiny, described, monkeypatch, tmp_path):
    tiny.make_store(tmp_path, (("train", 3), ("validation", 2)))
    with pytest.raises(
        OtherRun, match=r"validation songs of sines is '?3, hash \w+'? on rank 0 and '?2, hash"
    ):
        meet(monkeypatch, described(), described(data_home=tmp_path))


def test_many_differences_are_counted():
    first = {f"setting{number}": "a" for number in range(20)}
    found = differences(first, dict.fromkeys(first, "b"), 1)
    assert len(found) == 9
    assert found[-1] == "and 12 more"


def test_alone_there_is_nobody_to_ask(described):
    Agreement(described(), 1).setup(SimpleNamespace(), SimpleNamespace(), "fit")
