"""Published checkpoints become ours, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from amt.config.published_models import PUBLISHED_MODELS
from amt.inference import load_transcriber
from amt.model.checkpoint_file import load_weights, model_weights, read_checkpoint
from amt.model.checkpoint_header import read_header, read_sidecar
from amt.model.importing.computed import is_computed
from amt.model.importing.convert import blank_network, convert_checkpoint, describe, own_weights
from amt.model.importing.export import export_checkpoint, published_state
from amt.model.importing.foreign_file import read_foreign
from amt.training.warm_start import load_warm_start


@pytest.mark.parametrize("layout", PUBLISHED_MODELS)
def test_every_published_layout_imports_and_exports(
    samples: ModuleType, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real names and shapes: no key left over, a strict load, and the same keys and tensors back."""
    state = samples.full_state(layout)
    foreign = read_foreign(samples.lightning_file(tmp_path / "a.ckpt", state))
    experiment, found, _ = describe(foreign)
    assert found == layout
    expected = samples.published(layout)
    assert experiment.model == expected.model
    assert experiment.audio == expected.audio
    assert (experiment.task, experiment.event_length) == (expected.task, expected.event_length)
    weights, num_computed = own_weights(foreign, experiment)
    assert num_computed == len([name for name in state if is_computed(name)])
    monkeypatch.setattr("amt.model.transcriber.build_frontend", lambda audio: torch.nn.Identity())
    with torch.device("meta"):  # names and shapes without the numbers
        names = blank_network(experiment).state_dict()
    assert {name: value.shape for name, value in weights.items()} == {
        name: value.shape for name, value in names.items()
    }
    back = published_state(weights, experiment, foreign.path)
    assert set(back) == set(state)
    for name, value in state.items():
        assert torch.equal(back[name], value), name
        assert back[name].dtype == value.dtype


@pytest.mark.parametrize("layout", PUBLISHED_MODELS)
def test_files_there_and_back(samples: ModuleType, layout: str, tmp_path: Path) -> None:
    """Small networks of each layout through files, with the settings the published code stores."""
    experiment = samples.small(layout, model__decoder__dropout=0.07)
    state = samples.random_state(experiment)
    kernels = {"pitchshift.pshifters.1.kernel": torch.zeros(4, 1, 3)}
    source = samples.lightning_file(tmp_path / "a@model.ckpt", state | kernels, experiment)
    told: list[str] = []
    done = convert_checkpoint(source, tmp_path / "new" / "ours.ckpt", say=told.append)
    assert done.layout == layout
    assert done.assumed == ()
    assert done.dropped == tuple(kernels)
    assert done.experiment.model == experiment.model
    assert done.experiment.audio == experiment.audio
    assert done.experiment.task == experiment.task
    assert told[0].startswith("reading ")
    assert told[-1].startswith("writing ")
    assert [path.name for path in sorted((tmp_path / "new").iterdir())] == ["ours.ckpt", "ours.json"]
    exported = export_checkpoint(done.path, tmp_path / "back.ckpt", layout=layout)
    loaded = torch.load(exported.path, weights_only=True)
    assert set(loaded["state_dict"]) == set(state)
    assert all(torch.equal(loaded["state_dict"][name], value) for name, value in state.items())
    assert (loaded["global_step"], loaded["epoch"]) == (1234, 3)
    again = convert_checkpoint(tmp_path / "back.ckpt", tmp_path / "again.ckpt")
    assert again.experiment.model == experiment.model


@pytest.fixture
def small_file(samples: ModuleType, tmp_path: Path) -> tuple[Path, dict[str, Any], Any]:
    """A file of a small YPTF+Single, its state, its configuration."""
    experiment = samples.small("yptf_single")
    state = samples.random_state(experiment)
    return samples.lightning_file(tmp_path / "small.ckpt", state, experiment), state, experiment


def test_the_result_is_an_ordinary_checkpoint(
    samples: ModuleType, small_file: tuple[Path, dict[str, Any], Any], tmp_path: Path
) -> None:
    source, state, _ = small_file
    done = convert_checkpoint(source, tmp_path / "ours.ckpt", licence="CC-BY 4.0")
    content = read_checkpoint(done.path)
    assert content["licence"] == "CC-BY 4.0"
    assert content["source"]["file"] == "small.ckpt"
    assert content["source"]["layout"] == "yptf_single"
    assert len(content["source"]["sha256"]) == 64
    header = read_header(done.path)
    assert header is not None
    assert (header.step, header.epoch, header.complete) == (1234, 3, False)
    sidecar = read_sidecar(done.path)
    assert sidecar is not None
    assert sidecar["licence"] == "CC-BY 4.0"
    assert sidecar["experiment"]["MODEL"]["encoder"]["num_latents"] == 24
    transcriber = load_transcriber(done.path, device="cpu")
    assert transcriber.num_weights == done.num_weights
    assert transcriber.experiment.exp_id == "ours"
    notes = transcriber.transcribe(torch.zeros(16000).numpy(), 16000)
    assert notes.duration == 1.0
    model = blank_network(done.experiment)
    report = load_warm_start(model, done.path)
    assert f"{done.num_weights} of {done.num_weights} tensors loaded" in report[0]
    assert torch.equal(model.decoder.embed.weight, state["embed_tokens.weight"])


def test_without_a_licence_the_publisher_is_pointed_to(
    small_file: tuple[Path, dict[str, Any], Any], tmp_path: Path
) -> None:
    convert_checkpoint(small_file[0], tmp_path / "ours.ckpt")
    assert (
        "the licence of their publisher holds" in json.loads((tmp_path / "ours.json").read_text())["licence"]
    )


def test_half_precision_is_made_whole(samples: ModuleType, small_file: Any, tmp_path: Path) -> None:
    _, state, experiment = small_file
    half = {name: value.bfloat16() if value.is_floating_point() else value for name, value in state.items()}
    source = samples.lightning_file(tmp_path / "half.ckpt", half, experiment)
    convert_checkpoint(source, tmp_path / "ours.ckpt")
    weights = model_weights(read_checkpoint(tmp_path / "ours.ckpt"), "ours.ckpt")
    assert weights["decoder.embed.weight"].dtype == torch.float32
    assert torch.equal(weights["decoder.embed.weight"], state["embed_tokens.weight"].bfloat16().float())


def refused(
    samples: ModuleType, tmp_path: Path, state: dict[str, Any], experiment: Any, **options: Any
) -> str:
    """What a file with this state is refused with; nothing is written."""
    source = samples.lightning_file(tmp_path / "wrong.ckpt", state, experiment)
    with pytest.raises(ValueError, match=r"wrong\.ckpt") as caught:
        convert_checkpoint(source, tmp_path / "ours.ckpt", **options)
    assert not (tmp_path / "ours.ckpt").exists()
    return str(caught.value)


def test_every_key_is_accounted_for(samples: ModuleType, small_file: Any, tmp_path: Path) -> None:
    _, state, experiment = small_file
    text = refused(samples, tmp_path, state | {"encoder.extra.weight": torch.ones(2)}, experiment)
    assert "1 of " in text
    assert "no place in the model: encoder.extra.weight" in text
    for name in ("lm_head.lm_head.weight", "encoder.blocks.1.local_transformer.0.mlp.dense2.bias"):
        lacking = {key: value for key, value in state.items() if key != name}
        assert "missing" in refused(samples, tmp_path, lacking, experiment)
    cut = state | {"decoder.decoder.final_layer_norm.weight": torch.ones(47)}
    assert "of another shape" in refused(samples, tmp_path, cut, experiment)
    other = state | {
        "decoder.decoder.additive_pe.weight": state["decoder.decoder.additive_pe.weight"].flip(1)
    }
    assert "additive_pe.weight has other values" in refused(samples, tmp_path, other, experiment)
    for name in ("embed_tokens.weight", "encoder.latent_array.latents"):
        lacking = {key: value for key, value in state.items() if key != name}
        assert "no YourMT3 checkpoint" in refused(samples, tmp_path, lacking, experiment)
    name = "encoder.blocks.0.spectral_cross_attention.self.query.weight"
    lacking = {key: value for key, value in state.items() if key != name}
    assert f"lacks {name}" in refused(samples, tmp_path, lacking, experiment)


def test_computed_tensors_may_be_missing(samples: ModuleType, small_file: Any, tmp_path: Path) -> None:
    _, state, experiment = small_file
    names = ("spectrogram.stft.window", "decoder.decoder.additive_pe.weight")
    state = {name: value for name, value in state.items() if name not in names}
    source = samples.lightning_file(tmp_path / "a.ckpt", state, experiment)
    done = convert_checkpoint(source, tmp_path / "ours.ckpt")
    assert done.num_computed == 0
    assert done.experiment.model == experiment.model


def test_a_named_layout_is_held_against_the_file(
    samples: ModuleType, small_file: Any, tmp_path: Path
) -> None:
    _, state, experiment = small_file
    text = refused(samples, tmp_path, state, experiment, layout="yptf_moe_multi")
    assert "is no yptf_moe_multi" in text
    assert "decoder_type is t5" in text
    assert "it looks like yptf_single" in text
    with pytest.raises(ValueError, match="unknown published model 'yptf'"):
        convert_checkpoint(small_file[0], tmp_path / "ours.ckpt", layout="yptf")


def test_what_the_file_does_not_say_is_assumed_aloud(samples: ModuleType, tmp_path: Path) -> None:
    experiment = samples.small("yptf_moe_multi")
    source = samples.lightning_file(tmp_path / "bare.ckpt", samples.random_state(experiment))
    done = convert_checkpoint(source, tmp_path / "ours.ckpt")
    assert done.experiment.model.encoder == experiment.model.encoder
    text = " ".join(done.assumed)
    assert "hidden_act silu" in text
    assert "moe_topk 2" in text
    assert "taken from yptf_moe_multi" in text
    named = convert_checkpoint(source, tmp_path / "named.ckpt", layout="yptf_moe_multi")
    assert not any("hidden_act" in sentence for sentence in named.assumed)


def test_settings_of_the_file_win_over_the_published_row(samples: ModuleType, tmp_path: Path) -> None:
    experiment = samples.small(
        "yptf_single",
        model__encoder__hidden_act="relu",
        model__encoder__sca_query_residual=True,
        model__encoder__num_heads=4,
        model__encoder__dropout=0.05,
        audio__hop_length=256,
    )
    source = samples.lightning_file(tmp_path / "a.ckpt", samples.random_state(experiment), experiment)
    done = convert_checkpoint(source, tmp_path / "ours.ckpt", layout="yptf_single")
    assert done.experiment.model == experiment.model
    assert done.experiment.audio == experiment.audio


@pytest.mark.parametrize(
    "changes",
    [
        {"model__encoder__norm_type": "rms_norm"},
        {"model__encoder__position_encoding": "alibi", "model__encoder__alibi_scale": 0.5},
        {"model__encoder__position_encoding": "alibit", "model__encoder__alibi_scale": 0.5},
        {"model__encoder__position_encoding": "kdt"},
        {
            "model__encoder__position_encoding": "rope",
            "model__encoder__rope_width": 8,
            "model__encoder__qk_channels": 64,
        },
        {"model__encoder__ff_type": "gmlp", "model__encoder__ff_widening": 3},
        {"model__pre_decoder_type": "mlp_relu"},
        {"model__decoder__position_encoding": "trainable"},
        {"task": "singing_v1"},
    ],
)
def test_shapes_and_settings_decide(samples: ModuleType, tmp_path: Path, changes: dict[str, Any]) -> None:
    experiment = samples.small("yptf_single", **changes)
    if "model__encoder__alibi_scale" in changes:
        assert experiment.model.encoder.head_width == 4
    state, settings = samples.random_state(experiment), None
    source = samples.lightning_file(tmp_path / "a.ckpt", state, experiment)
    if changes.get("model__encoder__position_encoding") == "alibi":
        settings = torch.load(source, weights_only=True)["hyper_parameters"]
        settings["model_cfg"]["encoder"]["perceiver-tf"]["position_encoding_type"] = "alibi"
        source = samples.lightning_file(tmp_path / "a.ckpt", state, hyper_parameters=settings)
    done = convert_checkpoint(source, tmp_path / "ours.ckpt")
    assert done.experiment.model == experiment.model
    assert done.experiment.task == experiment.task


def test_task_and_segment_follow_from_tokens_and_frames(samples: ModuleType, tmp_path: Path) -> None:
    long = samples.small("yptf_single", audio__segment_samples=98301, task="mt3_full_plus")
    source = samples.lightning_file(tmp_path / "a.ckpt", samples.random_state(long))
    done = convert_checkpoint(source, tmp_path / "ours.ckpt")
    assert done.experiment.audio.segment_samples == 98301
    odd = samples.small("yptf_single", audio__segment_samples=48000)
    source = samples.lightning_file(tmp_path / "odd.ckpt", samples.random_state(odd))
    with pytest.raises(
        ValueError, match=r"odd\.ckpt has 692 tokens and positions for 161 frames.*--input-frames"
    ):
        convert_checkpoint(source, tmp_path / "odd_ours.ckpt")
    done = convert_checkpoint(source, tmp_path / "odd_ours.ckpt", segment_samples=48000, task="mt3_full")
    assert done.experiment.audio.segment_samples == 48000
    assert done.experiment.task == "mt3_full"
    with pytest.raises(ValueError, match="unknown task 'mt4'"):
        convert_checkpoint(source, tmp_path / "more.ckpt", task="mt4")


def test_files_are_not_overwritten(small_file: Any, tmp_path: Path) -> None:
    source, _, _ = small_file
    (tmp_path / "there.ckpt").write_text("old")
    with pytest.raises(ValueError, match=r"there\.ckpt is there already; --overwrite"):
        convert_checkpoint(source, tmp_path / "there.ckpt")
    assert (tmp_path / "there.ckpt").read_text() == "old"
    convert_checkpoint(source, tmp_path / "there.ckpt", overwrite=True)
    assert read_header(tmp_path / "there.ckpt") is not None
    with pytest.raises(ValueError, match="is the source itself"):
        convert_checkpoint(source, source, overwrite=True)
    with pytest.raises(ValueError, match="is a folder"):
        convert_checkpoint(source, tmp_path)


def test_the_global_generator_is_left_alone(small_file: Any, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    convert_checkpoint(small_file[0], tmp_path / "ours.ckpt")
    assert torch.equal(torch.rand(3), expected)


def test_our_weights_load_strictly(samples: ModuleType, small_file: Any) -> None:
    foreign = read_foreign(small_file[0])
    experiment, _, _ = describe(foreign)
    weights, _ = own_weights(foreign, experiment)
    assert load_weights(blank_network(experiment), weights, foreign.path) == len(weights)
