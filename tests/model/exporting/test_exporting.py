"""Exported networks give what the network gives: numbers within 1e-4, and the same tokens."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from amt.cli.export import main as export_main
from amt.config import (
    AudioConfig,
    ConformerConfig,
    Experiment,
    ModelConfig,
    PreEncoderConfig,
    T5DecoderConfig,
    T5EncoderConfig,
)
from amt.model import Transcriber, build_from
from amt.model.checkpoint_content import description
from amt.model.checkpoint_file import experiment_of, model_weights, read_checkpoint
from amt.model.checkpoint_header import diagnose_file, read_header
from amt.model.exporting.graphs import DecoderStepGraph, DenseExperts
from amt.model.exporting.programs import load_program, trace
from amt.model.layers.experts import MixtureOfExperts
from amt.tokenizer import NoteTokenizer
from small_networks import small_encoder, small_model

Graph = Callable[..., tuple[Tensor, Tensor]]
HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))
KINDS = (
    "torch",
    pytest.param(
        "onnx", marks=pytest.mark.skipif(not HAS_ONNX, reason="the packages of amt[onnx] are not installed")
    ),
)


def moe_multi() -> Experiment:
    """As ``yptf_moe_multi``, with few and narrow parts: 13 channels, experts, rotary positions."""
    encoder = small_encoder(
        num_latents=26,
        num_heads=4,
        ff_type="moe",
        moe_num_experts=8,
        moe_topk=2,
        ff_widening=2,
        hidden_act="silu",
        norm_type="rms_norm",
        position_encoding="rope",
        rope_partial=True,
        sca_query_residual=True,
    )
    model = small_model(
        T5DecoderConfig(d_model=24, num_heads=3, d_kv=8, num_layers=2),
        encoder,
        PreEncoderConfig("conv", out_channels=8),
        pre_decoder_type="mc_shared_linear",
        decoder_type="multi-t5",
    )
    return Experiment(
        exp_id="tiny",
        task="mc13_full_plus_256",
        event_length=32,
        audio=AudioConfig(codec="melspec", segment_samples=6000, hop_length=300, n_mels=64),
        model=model,
    )


def plain(positions: str, codec: str) -> Experiment:
    decoder = T5DecoderConfig(d_model=24, num_heads=3, d_kv=8, num_layers=2, position_encoding=positions)
    encoder = small_encoder(num_latents=3, num_heads=4)
    model = small_model(decoder, encoder, PreEncoderConfig("conv", out_channels=8))
    audio = AudioConfig(codec=codec, segment_samples=6000, hop_length=300)
    return Experiment(exp_id="tiny", task="mt3_full_plus", event_length=32, audio=audio, model=model)


@pytest.fixture
def quick(quick_model: ModelConfig, quick_audio: AudioConfig) -> Experiment:
    return Experiment(
        exp_id="quick", task="mc13_fsingle_vocal", event_length=48, audio=quick_audio, model=quick_model
    )


def network(experiment: Experiment, end_scale: float = 1.0) -> Transcriber:
    """Random weights under which rows write different tokens and end at different steps."""
    torch.manual_seed(3)
    model = build_from(experiment, NoteTokenizer.from_experiment(experiment)).eval()
    with torch.no_grad():
        for name, parameter in model.decoder.named_parameters():
            parameter.mul_(4.0 if "cross_attention" in name else 2.0)
        # The end is likely in some places and not in all: its score is 0 on average and varies much.
        decoder, generator = model.decoder, torch.Generator().manual_seed(0)
        ids = torch.randint(0, decoder.embed.num_embeddings, (8, 20), generator=generator)
        common = decoder.hidden(ids, torch.zeros(8, 1, decoder.embed.embedding_dim)).mean((0, 1))
        end = decoder.lm_head.weight[model.eos_id]
        end -= (end @ common) / common.square().sum() * common
        end *= end_scale
    return model


def saved(experiment: Experiment, model: Transcriber, path: Path) -> Path:
    content: dict[str, Any] = description(experiment, "as you like")
    content |= {"state_dict": {f"model.{name}": value for name, value in model.state_dict().items()}}
    torch.save(content | {"global_step": 7, "epoch": 2}, path)
    return path


def onnx_graph(path: Path) -> Graph:
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = [item.name for item in session.get_inputs()]

    def run(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        arrays = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        first, second = session.run(None, arrays)
        return torch.from_numpy(first), torch.from_numpy(second)

    return run


def graphs(folder: Path, kind: str) -> tuple[Graph, Graph]:
    files = json.loads((folder / "model.json").read_text(encoding="utf-8"))["files"]
    load = onnx_graph if kind == "onnx" else load_program
    return load(folder / files["encoder"]), load(folder / files["decoder_step"])


def written(settings: dict[str, Any], encoder: Graph, step: Graph, audio: Tensor) -> Tensor:
    """Greedy decoding with the graphs, from model.json alone: ids (B, C, N)."""
    _, cross = encoder(audio)
    rows, cache = cross.shape[2], settings["cache"]
    own = torch.zeros(cache["layers"], 2, rows, cache["heads"], 0, cache["width"])
    ids = torch.full((rows,), settings["pad_id"])
    ended = torch.zeros(rows, dtype=torch.bool)
    out: list[Tensor] = []
    while len(out) < settings["max_length"] and not ended.all():
        logits, own = step(ids, own, cross)
        ids = logits.argmax(1).masked_fill(ended, settings["pad_id"])
        ended |= ids == settings["eos_id"]
        out.append(ids)
    return torch.stack(out, 1).view(len(audio), settings["num_channels"], -1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["quick", "moe_multi", "trainable"])
def test_graphs_write_the_tokens_of_the_network(
    name: str, kind: str, quick: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = {"quick": quick, "moe_multi": moe_multi(), "trainable": plain("trainable", "spec")}[name]
    model = network(experiment, 1.3 if name == "moe_multi" else 1.0)
    source, folder = saved(experiment, model, tmp_path / "a.ckpt"), tmp_path / "out é"
    assert export_main([str(source), str(folder), "--format", kind]) == 0, capsys.readouterr().err
    assert "encoder" in capsys.readouterr().out
    encoder, step = graphs(folder, kind)
    settings = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert settings["licence"] == "as you like"
    for batch in (1, 3):  # other sizes than those of tracing
        audio = 0.3 * torch.randn(batch, 1, experiment.audio.segment_samples)
        memory, _ = encoder(audio)
        with torch.inference_mode():
            torch.testing.assert_close(memory, model.encode(audio).memory, atol=1e-4, rtol=0)
        expected = model.generate(audio)
        found = written(settings, encoder, step, audio)
        assert torch.equal(found, expected)
        assert len(expected.unique()) > 3, "a network that always writes the same proves nothing"


@pytest.mark.parametrize("encoder", ["t5", "conformer"])
def test_other_encoders_and_experts_in_the_decoder(encoder: str) -> None:
    decoder = T5DecoderConfig(d_model=64, num_heads=3, d_kv=8, num_layers=1, ff_type="moe")
    model_config = ModelConfig(
        encoder_type=encoder,
        pre_encoder=PreEncoderConfig(type="none"),
        pre_decoder_type="none",
        decoder=decoder,
        t5_encoder=T5EncoderConfig(num_layers=1),
        conformer=ConformerConfig(num_layers=1),
    )
    audio_config = AudioConfig(codec="melspec", segment_samples=6000, hop_length=300, n_mels=64)
    experiment = replace(plain("sinusoidal", "melspec"), audio=audio_config, model=model_config)
    model = network(experiment)
    programs = trace(model, 6000)
    encode, step = (program.module() for program in programs)
    audio = 0.3 * torch.randn(3, 1, 6000)
    with torch.inference_mode():
        encoded = model.encode(audio)
        expected = model.decode_logits(encoded, torch.ones(3, 1, 1, dtype=torch.int64))[:, 0, 0]
    memory, cross = encode(audio)
    torch.testing.assert_close(memory, encoded.memory, atol=1e-4, rtol=0)
    logits, _ = step(torch.zeros(3, dtype=torch.int64), torch.zeros(1, 2, 3, 3, 0, 8), cross)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", ["sinusoidal", "trainable"])
def test_steps_give_the_logits_of_teacher_forcing(positions: str) -> None:
    experiment = plain(positions, "melspec")
    model = network(experiment)
    step = DecoderStepGraph(model)
    labels = torch.randint(2, 300, (2, 1, 12))
    with torch.inference_mode():
        encoded = model.encode(0.3 * torch.randn(2, 1, 6000))
        expected = model.decode_logits(encoded, labels)[:, 0]
        cross = torch.stack(
            [
                torch.stack([layer.cross_attention._split(part(encoded.memory)) for part in parts])
                for layer in model.decoder.layers
                for parts in [(layer.cross_attention.k, layer.cross_attention.v)]
            ]
        )
        own = torch.zeros(2, 2, 2, 3, 0, 8)
        ids = torch.zeros(2, dtype=torch.int64)
        for place in range(12):
            logits, own = step(ids, own, cross)
            torch.testing.assert_close(logits, expected[:, place], atol=1e-4, rtol=1e-4)
            ids = labels[:, 0, place]


def test_dense_experts_are_the_mixture() -> None:
    mixture = MixtureOfExperts(16, 2, "silu", 8, 3).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        torch.testing.assert_close(DenseExperts(mixture)(x)[0], mixture(x)[0], atol=1e-5, rtol=1e-5)


def test_weights_and_configuration_in_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors import safe_open

    experiment = plain("sinusoidal", "melspec")
    model = network(experiment)
    source, target = saved(experiment, model, tmp_path / "a.ckpt"), tmp_path / "a.safetensors"
    assert export_main([str(source), str(target)]) == 0, capsys.readouterr().err
    with safe_open(target, "np") as file:  # somebody else's reader
        assert set(file.keys()) == set(model.state_dict())
        metadata = file.metadata()
    assert Experiment.from_json(metadata["experiment"]) == experiment
    assert metadata["licence"] == "as you like"

    again = read_checkpoint(target)
    assert experiment_of(again, target) == experiment
    assert (again["global_step"], again["epoch"]) == (7, 2)
    weights = model_weights(again, target)
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    header = read_header(target)
    assert header is not None
    assert (header.step, header.complete, header.experiment) == (7, False, metadata["experiment"])

    audio = (0.1 * np.random.default_rng(0).standard_normal(9000)).astype(np.float32)
    from amt.inference import load_transcriber

    one, two = (load_transcriber(path, device="cpu").transcribe(audio) for path in (source, target))
    assert (one.notes, one.errors) == (two.notes, two.errors)

    assert export_main([str(source), str(target)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert export_main([str(source), str(target), "--overwrite"]) == 0


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:20], lambda data: b"\xff" * 99]
)
def test_a_damaged_file_of_weights_is_named(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    experiment = plain("sinusoidal", "melspec")
    source, target = saved(experiment, network(experiment), tmp_path / "a.ckpt"), tmp_path / "a.safetensors"
    assert export_main([str(source), str(target)]) == 0
    target.write_bytes(damage(target.read_bytes()))
    assert diagnose_file(target) is not None
    assert read_header(target) is None
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        read_checkpoint(target)


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = plain("sinusoidal", "melspec")
    source = saved(experiment, network(experiment), tmp_path / "a.ckpt")
    for words, found in (
        ([str(source)], "are needed, not 1"),
        ([str(source), str(tmp_path / "a.bin")], "must end in .safetensors"),
        ([str(source), str(source), "--format", "torch"], "is a file"),
        ([str(source), str(tmp_path), "--format", "tflite"], "tflite"),
    ):
        assert export_main(words) == 2
        assert found in capsys.readouterr().err
    (tmp_path / "model.json").write_text("{}")
    assert export_main([str(source), str(tmp_path), "--format", "torch"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert export_main(["--help"]) == 0
    assert "onnxruntime" in capsys.readouterr().out


def test_missing_packages_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxscript" else there(name)
    )
    experiment = plain("sinusoidal", "melspec")
    source = saved(experiment, network(experiment), tmp_path / "a.ckpt")
    assert export_main([str(source), str(tmp_path / "out"), "--format", "onnx"]) == 2
    assert "amt[onnx]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
