"""Switches of training that reach into the network: balance of experts, activation checkpointing."""

from __future__ import annotations

import csv

EXPERTS = {
    "model__encoder__ff_type": "moe",
    "model__encoder__moe_num_experts": 3,
    "model__encoder__moe_topk": 1,
    "trainer__max_steps": 2,
    "trainer__val_interval": 2,
}


def run(tiny, sines, folder, **changes):
    assert tiny.train(folder, sines, **EXPERTS, **changes) == 0
    with open(folder / "metrics.csv", newline="") as file:
        return [row for row in csv.DictReader(file) if row["train_loss"]]


def test_balance_is_a_term_of_the_loss_and_layers_may_be_computed_twice(tiny, sines, tmp_path):
    plain = run(tiny, sines, tmp_path / "p" / "plain")
    assert "moe_balance" not in plain[0]
    weighed = run(tiny, sines, tmp_path / "p" / "weighed", objective__moe_balance_weight=0.5)
    balance = float(weighed[0]["moe_balance"])
    assert 1.0 <= balance <= 3.0
    assert abs(float(weighed[0]["train_loss"]) - float(plain[0]["train_loss"]) - 0.5 * balance) < 1e-4
    again = run(
        tiny,
        sines,
        tmp_path / "p" / "again",
        objective__moe_balance_weight=0.5,
        trainer__activation_checkpointing=True,
    )
    for one, other in zip(weighed, again, strict=True):
        assert abs(float(one["train_loss"]) - float(other["train_loss"])) < 1e-4
        assert abs(float(one["grad_norm"]) / float(other["grad_norm"]) - 1) < 1e-3


def test_the_switch_reaches_the_layers(tiny, sines):
    from amt.model.layers.recompute import LayerStack
    from amt.tokenizer import NoteTokenizer
    from amt.training.module import TranscriptionModule

    for on in (False, True):
        experiment = tiny.experiment(trainer__activation_checkpointing=on)
        tokenizer = NoteTokenizer.from_experiment(experiment)
        module = TranscriptionModule(experiment, tokenizer)
        stacks = [part for part in module.modules() if isinstance(part, LayerStack)]
        assert len(stacks) >= 2
        assert all(stack.recompute is on for stack in stacks)
