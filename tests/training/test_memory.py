"""The estimate of memory against what autograd really keeps, and what is said when there is not enough."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from amt.cli.command import run_command
from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.published_models import get_published_model
from amt.config.recipes import get_recipe
from amt.losses import token_cross_entropy
from amt.model import Transcriber, build_from
from amt.optim import OPTIMIZER_TABLE, build_optimizer
from amt.tokenizer import NoteTokenizer
from amt.training import memory
from amt.training.activations import count_activations
from amt.training.kept_bytes import Format
from amt.training.memory import GIB, MOMENTS, MemoryAdvisor, OutOfMemory, estimate_memory
from amt.training.module import TranscriptionModule
from amt.training.trainer import Hardware

NUM_TOKENS = 64
FACTOR = 1.1
"""Between estimate and measurement, either way."""
DROPOUTS = ("encoder", "t5_encoder", "conformer", "decoder")


def build(changes: dict[str, Any], dropout: float) -> tuple[Experiment, Transcriber, NoteTokenizer]:
    """A network for segments of half a second."""
    leaves = {f"model.{part}.dropout": dropout for part in DROPOUTS}
    base = Experiment()
    experiment = replace_leaves(base, {**changes, "audio.segment_samples": 8000, **leaves})
    tokenizer = NoteTokenizer.from_experiment(experiment)
    torch.manual_seed(0)
    return experiment, build_from(experiment, tokenizer).train(), tokenizer


def kept_bytes(model: Transcriber, tokenizer: NoteTokenizer, mixed: bool, segments: int = 1) -> int:
    """What autograd keeps in a forward pass, each storage once, weights left out."""
    own = {item.untyped_storage().data_ptr() for item in (*model.parameters(), *model.buffers())}
    storages: dict[int, int] = {}
    alive: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        alive.append(tensor)  # a place that is free again would be counted once for two
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    audio = 0.1 * torch.randn(segments, 1, 8000)
    labels = torch.randint(3, tokenizer.vocab_size, (segments, tokenizer.num_channels, NUM_TOKENS))
    with (
        torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=mixed),
    ):
        encoded = model.encode(audio)
        loss = token_cross_entropy(model.decode_logits(encoded, labels), labels)
        frames = model.frame_logits(encoded)
        if frames is not None:
            loss = loss + frames.float().square().mean()
    return sum(storages.values())


def ratio(changes: dict[str, Any], dropout: float, mixed: bool, recompute: bool = False) -> float:
    """Estimate over measurement."""
    experiment, model, tokenizer = build(changes, dropout)
    model.recompute_activations(recompute)
    count = count_activations(model, experiment, NUM_TOKENS, Format(mixed, on_cpu=True))
    measured = kept_bytes(model, tokenizer, mixed)
    if mixed and not recompute:  # the copies of weights that matrices use
        measured -= 2 * sum(item.numel() for item in model.parameters() if item.ndim >= 2)
    return count.kept(recompute) / measured


SIZES = {"quickstart": get_recipe("quickstart"), "yptf_single": get_published_model("yptf_single")}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("dropout", [0.0, 0.05])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_estimate_is_what_autograd_keeps(name: str, dropout: float, mixed: bool) -> None:
    assert 1 / FACTOR < ratio(dict(SIZES[name]), dropout, mixed) < FACTOR


@pytest.mark.parametrize("name", SIZES)
def test_with_activation_checkpointing(name: str) -> None:
    assert 1 / FACTOR < ratio(dict(SIZES[name]), 0.05, mixed=False, recompute=True) < FACTOR


_MEL = {
    "audio.codec": "melspec",
    "audio.n_mels": 32,
    "model.pre_encoder.type": "none",
    "model.pre_encoder.time_stride": 1,
    "model.pre_decoder_type": "none",
}
KINDS: dict[str, dict[str, Any]] = {
    "no time stride": {"model.pre_encoder.time_stride": 1},
    "residual convolutions": {"model.pre_encoder.type": "conv", "model.pre_encoder.time_stride": 1},
    "one axis": {"model.pre_encoder.type": "conv1d_t", "model.pre_encoder.time_stride": 1},
    "windows": {"model.pre_encoder.type": "hftt", "model.pre_encoder.time_stride": 1},
    "both": {"model.pre_encoder.type": "res3b_hftt", "model.pre_encoder.time_stride": 1},
    "gated": {"model.encoder.ff_type": "gmlp"},
    "experts": {"model.encoder.ff_type": "moe", "model.decoder.ff_type": "moe"},
    "layer norm": {"model.encoder.norm_type": "layer_norm"},
    "channels are keys": {"model.encoder.attention_to_channel": True},
    "no query residual": {"model.encoder.sca_query_residual": False},
    "rope": {"model.encoder.position_encoding": "rope"},
    "projection": {"model.pre_decoder_type": "mlp_gelu"},
    "channels": {
        "task": "mc13_256",
        "model.decoder_type": "multi-t5",
        "model.pre_decoder_type": "mc_shared_linear",
        "model.encoder.num_latents": 13,
    },
    "t5": {**_MEL, "model.encoder_type": "t5", "model.t5_encoder.num_layers": 2},
    "conformer": {**_MEL, "model.encoder_type": "conformer", "model.conformer.num_layers": 2},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_layer_is_counted(tiny: Any, kind: str) -> None:
    """Parts that the two sizes above do not have, alone in a small network."""
    plain = {leaf: value for leaf, value in tiny.SETTINGS.items() if leaf.startswith(("audio", "model"))}
    wide = {
        "model.encoder.d_model": 64,
        "model.encoder.d_latent": 64,
        "model.encoder.sca_query_residual": True,
        "model.encoder.norm_type": "rms_norm",
        "model.pre_encoder.harmonics": [],
        "model.frame_groups": [],
    }
    changes = {**plain, **wide, "task": "mc13_fsingle", **KINDS[kind]}
    for mixed in (False, True):
        assert 1 / 1.15 < ratio(changes, 0.1, mixed) < 1.15, mixed


def test_longer_labels_and_more_segments_need_more() -> None:
    experiment, model, tokenizer = build(dict(SIZES["quickstart"]), 0.0)
    count = count_activations(model, experiment, NUM_TOKENS, Format())
    assert kept_bytes(model, tokenizer, False, segments=4) == pytest.approx(
        4 * kept_bytes(model, tokenizer, False), rel=0.05
    )
    longer = count_activations(model, experiment, 4 * NUM_TOKENS, Format())
    assert longer.kept(False) > 1.5 * count.kept(False)
    assert count.peak(False) > count.kept(False) > count.kept(True)
    assert count.peak(True) < count.peak(False)


@pytest.mark.parametrize("name", [name for name in OPTIMIZER_TABLE if name != "CPUAdam"])
def test_moments_are_counted(name: str) -> None:
    network = torch.nn.Linear(256, 256)
    optimizer = build_optimizer(name, network.named_parameters(), 1e-3)
    network(torch.randn(2, 256)).square().sum().backward()
    optimizer.step()
    kept = sum(
        value.numel()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    )
    assert kept / sum(item.numel() for item in network.parameters()) == pytest.approx(MOMENTS[name], abs=0.03)
    assert set(MOMENTS) == set(OPTIMIZER_TABLE)


def test_weights_gradients_and_moments(tiny: Any) -> None:
    experiment = tiny.experiment()
    tokenizer = NoteTokenizer.from_experiment(experiment)
    model = build_from(experiment, tokenizer)
    number = sum(item.numel() for item in model.parameters())
    plain = estimate_memory(model, experiment, NUM_TOKENS, on_cpu=True)
    assert 4 * number <= plain.weights
    assert (plain.gradients, plain.optimizer) == (4 * number, 8 * number)
    two = estimate_memory(model, experiment, NUM_TOKENS, on_cpu=True, world_size=2)
    assert two.gradients == 8 * number
    average = estimate_memory(model, tiny.experiment(optimizer__ema_decay=0.9), NUM_TOKENS, on_cpu=True)
    assert average.optimizer > plain.optimizer + 4 * number
    for parameter in model.encoder.parameters():
        parameter.requires_grad_(False)
    assert estimate_memory(model, experiment, NUM_TOKENS, on_cpu=True).gradients < plain.gradients
    larger = estimate_memory(
        model, tiny.experiment(rl__enabled=True, rl__num_samples=2), NUM_TOKENS, on_cpu=True
    )
    assert larger.activations > 1.2 * plain.activations


def advisor(tiny: Any, gpu: bool = True, **changes: Any) -> MemoryAdvisor:
    experiment = tiny.experiment(**changes)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    hardware = Hardware("cuda" if gpu else "cpu", 1, 1, 0, 0, "bf16-mixed" if gpu else "32", False, ())
    return MemoryAdvisor(build_from(experiment, tokenizer), experiment, hardware, tokenizer.sequence_length)


def test_a_run_that_cannot_fit_is_told_before_it_starts(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = advisor(tiny, bsz__sub=4, bsz__local=12, event_length=256)
    monkeypatch.setattr(memory, "device_bytes", lambda _: 80 * GIB)
    line = words.describe()
    assert line.startswith("memory: a step holds about ")
    assert "-bsz 4 12 -el 256" in line
    assert line.endswith("; CUDA and its libraries come on top")
    assert advisor(tiny, gpu=False).describe().endswith("; Python and its libraries come on top")
    large = advisor(tiny, gpu=False)
    monkeypatch.setattr(memory, "device_bytes", lambda _: int(1.5 * large.estimate().total))
    assert large.describe().endswith("such a step may take minutes: --recipe quickstart is a model for a CPU")
    monkeypatch.setattr(memory, "device_bytes", lambda _: 2**20)
    line = words.describe()
    assert "more than the 1 MiB the GPU has" in line
    assert "-bsz 6 6 -acc 2" in line
    assert "--activation-checkpointing true" in line
    assert "at most 128 tokens, -el" in line
    once = advisor(tiny, bsz__sub=1, bsz__local=1, trainer__activation_checkpointing=True)
    assert once.remedies() == "a smaller model"
    odd = advisor(tiny, bsz__sub=3, bsz__local=9, trainer__accumulate_grad_batches=2)
    assert "-bsz 3 3 -acc 6" in odd.remedies()


GPU_TEXT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.75 GiB of which"
CPU_TEXT = "[enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: can't allocate memory: you tried"


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError(GPU_TEXT), RuntimeError(CPU_TEXT)], ids=["GPU", "CPU"]
)
@pytest.mark.parametrize("place", ["forward", "backward"])
def test_out_of_memory_in_a_step_says_what_to_lower(
    tiny: Any, sines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, place: str
) -> None:
    step = TranscriptionModule.training_step

    def training_step(self: TranscriptionModule, batch: Any, batch_idx: int) -> Tensor:
        loss = step(self, batch, batch_idx)
        if batch_idx == 1 and place == "forward":
            raise error
        if batch_idx == 1:
            loss.register_hook(lambda _: (_ for _ in ()).throw(error))
        return loss

    monkeypatch.setattr(TranscriptionModule, "training_step", training_step)
    with pytest.raises(OutOfMemory) as caught:
        tiny.train(tmp_path / "p" / "x", sines)
    assert caught.value.__cause__ is error
    text = str(caught.value)
    assert text.startswith(f"out of memory in step 2 on rank 0 ({str(error).split('. GPU')[0][:200]}")
    for part in (
        "-bsz 2 2 -el 64",
        "-bsz 1 1 -acc 2",
        "--activation-checkpointing true",
        "weights",
        "activations",
    ):
        assert part in text
    assert re.search(r"needs about \d+ MiB", text)


def test_out_of_memory_in_validation_names_its_batch(
    tiny: Any, sines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def validation_step(*_: Any) -> None:
        raise torch.OutOfMemoryError(GPU_TEXT)

    monkeypatch.setattr(TranscriptionModule, "validation_step", validation_step)
    with pytest.raises(OutOfMemory, match=r"in the validation of step 3 .*--val-batch-size .*now 4 windows"):
        tiny.train(tmp_path / "p" / "x", sines)


def test_other_errors_pass(tiny: Any, sines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def training_step(*_: Any) -> None:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(TranscriptionModule, "training_step", training_step)
    with pytest.raises(RuntimeError, match="shapes do not fit") as caught:
        tiny.train(tmp_path / "p" / "x", sines)
    assert not isinstance(caught.value, OutOfMemory)


def test_the_command_says_it_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def work(_: Any) -> int:
        raise OutOfMemory("out of memory in step 2: lower it")

    assert run_command(work, []) == 2
    assert capsys.readouterr().err == "error: out of memory in step 2: lower it\n"
