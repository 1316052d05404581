"""A training step at full label length against the same arithmetic written out plainly: CPU seconds, one
thread, the two sides in turn. Names of models and a number of pairs may follow:
``python benchmarks/full_length_step.py yptf_moe_multi 3``.

Counted as well are the products and convolutions of a step, and how long they would take at the rate of a
large product: no form of the same arithmetic is faster on that machine.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from baselines.plain_network import PlainNetwork
from cpu_rates import cpu_seconds, matrix_rate
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.published_models import get_published_model
from amt.model import build_from
from amt.tokenizer import NoteTokenizer

MODELS = ("yptf_single", "yptf_moe_multi")


def backward_of(loss: Callable[[], Tensor]) -> None:
    """A loss and its gradient."""
    loss().backward()


def kept_bytes(run: Callable[[], object]) -> int:
    """Bytes that the forward pass keeps for the way back, each storage once."""
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run()
    return sum(storages.values())


def operations(run: Callable[[], Tensor]) -> int:
    """Floating-point operations of the products and convolutions of a loss and its gradient."""
    with FlopCounterMode(display=False) as counter:
        backward_of(run)
    return int(counter.get_total_flops())


def compare(name: str, pairs: int) -> None:
    """Check that loss and gradient are the same without dropout, then time steps with it; print a line."""
    experiment = replace_leaves(Experiment(), get_published_model(name))
    tokenizer = NoteTokenizer.from_experiment(experiment)
    channels, tokens = tokenizer.num_channels, tokenizer.sequence_length
    torch.manual_seed(0)
    audio = 0.1 * torch.randn(1, 1, experiment.audio.segment_samples)
    labels = torch.randint(3, tokenizer.vocab_size, (1, channels, tokens))

    def pair(dropout: bool) -> tuple[Callable[[], Tensor], Callable[[], Tensor], list[Tensor], list[Tensor]]:
        config = experiment.model
        if not dropout:
            config = replace(
                config,
                encoder=replace(config.encoder, dropout=0.0),
                decoder=replace(config.decoder, dropout=0.0),
            )
        model = build_from(replace(experiment, model=config), tokenizer).train()
        plain = PlainNetwork(model, config)

        def loss(logits: Tensor) -> Tensor:
            return F.cross_entropy(logits.flatten(0, 2), labels.flatten())

        ours, theirs = list(model.parameters()), list(plain.parameters())
        return lambda: loss(model(audio, labels)), lambda: loss(plain.logits(audio, labels)), ours, theirs

    def norm(loss: Callable[[], Tensor], parameters: list[Tensor]) -> tuple[float, float]:
        value = loss()
        value.backward()
        total = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        return float(value.detach()), float(total)

    ours, theirs, our_parameters, their_parameters = pair(dropout=False)
    ours_is, theirs_is = norm(ours, our_parameters), norm(theirs, their_parameters)
    difference = max(abs(a / b - 1) for a, b in zip(ours_is, theirs_is, strict=True))

    ours, theirs, our_parameters, their_parameters = pair(dropout=True)
    times = []
    for number in range(pairs + 1):
        row = []
        for loss, parameters in ((ours, our_parameters), (theirs, their_parameters)):
            row.append(cpu_seconds(partial(backward_of, loss)))
            for parameter in parameters:
                parameter.grad = None
        if number:
            times.append(row)
    step = statistics.median(row[0] for row in times)
    ratio = statistics.median(row[1] / row[0] for row in times)
    memory, plain_memory = kept_bytes(ours), kept_bytes(theirs)
    needed = operations(ours)
    least = needed / matrix_rate()
    print(
        f"{name}, {channels} x {tokens} tokens: {step:.2f} s, {ratio:.2f}x less than written out plainly; "
        f"keeps {memory / 2**20:.0f} MiB against {plain_memory / 2**20:.0f}; loss and gradient norm differ "
        f"by {difference:.0e} without dropout; {needed / 1e9:.0f} GFLOP of products take {least:.2f} s at "
        f"the rate of a large one, {least / step:.0%} of the step, and written out plainly takes "
        f"{step * ratio / least:.1f}x that"
    )


def main() -> None:
    torch.set_num_threads(1)
    words = sys.argv[1:]
    pairs = next((int(word) for word in words if word.isdigit()), 5)
    for name in [word for word in words if not word.isdigit()] or MODELS:
        compare(name, pairs)


if __name__ == "__main__":
    main()
