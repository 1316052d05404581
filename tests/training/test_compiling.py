"""``--compile``: the same numbers, one compilation for all label lengths."""

from __future__ import annotations

import shutil

import pytest
import torch

from amt.tokenizer import NoteTokenizer
from amt.training.compiling import compiled_passes
from amt.training.module import TranscriptionModule


def build(tiny, on):
    no_dropout = {"model__encoder__dropout": 0.0, "model__decoder__dropout": 0.0}
    experiment = tiny.experiment(trainer__compile=on, **no_dropout)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    return TranscriptionModule(experiment, tokenizer)


def test_the_switch_reaches_the_module(tiny):
    assert build(tiny, False)._compiled is None
    assert build(tiny, True)._compiled is not None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_compiled_equals_plain_for_all_label_lengths(tiny):
    module = build(tiny, True)
    model, audio = module.model, module.experiment.audio
    encode, decode = compiled_passes(model)
    sound = torch.randn(2, 1, audio.segment_samples) * 0.1
    torch._dynamo.utils.counters.clear()
    compiled = []
    for length in (32, 48, 64):
        labels = torch.randint(3, module.tokenizer.vocab_size, (2, 1, length))
        got, want = decode(encode(sound), labels), model(sound, labels)
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-3)
        compiled.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert compiled[1] == compiled[2], "one more length compiles nothing more"
    got.square().mean().backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    want.square().mean().backward()
    for one, other in zip(gradients, (p.grad for p in model.parameters() if p.grad is not None), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-2)
