"""Checkpoints of ours as files of the published code."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.recipes import RECIPES
from amt.model.checkpoint_content import weights_only_content
from amt.model.checkpoint_write import write_checkpoint
from amt.model.importing.convert import blank_network
from amt.model.importing.export import export_checkpoint, unpublished


def ours(path: Path, experiment: Experiment) -> Path:
    state = {f"model.{name}": value for name, value in blank_network(experiment).state_dict().items()}
    write_checkpoint(weights_only_content(experiment, state, "", {}, 7, 1), path)
    return path


def test_a_fitting_model_gets_a_note_where_the_published_code_does_otherwise(
    samples: ModuleType, tmp_path: Path
) -> None:
    experiment = samples.small("yptf_single", model__logit_scale=1.0)
    done = export_checkpoint(ours(tmp_path / "a.ckpt", experiment), tmp_path / "b.ckpt")
    assert done.layout == "yptf_single"
    text = " ".join(done.notes)
    assert "tie_word_embeddings" in text
    assert "no flag of the published code sets d_latent 16" in text
    settings = torch.load(tmp_path / "b.ckpt", weights_only=True)["hyper_parameters"]
    assert settings["model_cfg"]["tie_word_embeddings"] is False
    half = samples.small("yptf_single", model__logit_scale=0.5)
    done = export_checkpoint(ours(tmp_path / "c.ckpt", half), tmp_path / "d.ckpt")
    assert "not 0.5" in done.notes[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__memory_positions": "sinusoid"}, "memory positions"),
        ({"model__decoder__scaled_attention": True}, "scaled attention"),
        ({"model__decoder__position_scale": 0.3}, "scaled decoder positions"),
        ({"model__encoder__position_encoding": "sinusoidal"}, "sinusoidal positions in Perceiver-TF"),
        ({"model__encoder__position_encoding": "alibi"}, "alibi scale 1.0"),
        ({"model__encoder__position_encoding": "rope"}, "rotary width 4 with 8 heads"),
        ({"audio__codec": "logspec"}, "front end logspec"),
        ({"model__decoder__ff_type": "moe"}, "experts in the decoder"),
    ],
)
def test_parts_without_weights_are_refused_by_name(
    samples: ModuleType, changes: dict[str, Any], said: str
) -> None:
    parts = unpublished(samples.small("yptf_single", **changes))
    assert len(parts) == 1
    assert said in parts[0]


def test_published_models_are_published(samples: ModuleType) -> None:
    for layout in samples.STATE_KEYS:
        assert unpublished(samples.published(layout)) == []


def test_parts_with_weights_are_refused_by_name(samples: ModuleType, tmp_path: Path) -> None:
    source = ours(tmp_path / "a.ckpt", samples.small("yptf_single", model__memory_norm=True))
    with pytest.raises(
        ValueError, match=r"a\.ckpt: the published code has no place for 1 weights: memory_norm"
    ):
        export_checkpoint(source, tmp_path / "b.ckpt")
    assert not (tmp_path / "b.ckpt").exists()


def test_the_quick_start_cannot_be_exported(tmp_path: Path) -> None:
    experiment = replace_leaves(Experiment(), RECIPES["quickstart"])
    with pytest.raises(ValueError, match="the published code has no front end logspec, no memory positions"):
        export_checkpoint(ours(tmp_path / "a.ckpt", experiment), tmp_path / "b.ckpt")


def test_a_named_layout_is_held_against_the_model(samples: ModuleType, tmp_path: Path) -> None:
    source = ours(tmp_path / "a.ckpt", samples.small("yptf_single"))
    with pytest.raises(
        ValueError, match=r"a\.ckpt is no ymt3plus: audio.codec is spec, encoder_type is perceiver-tf"
    ):
        export_checkpoint(source, tmp_path / "b.ckpt", layout="ymt3plus")
    with pytest.raises(ValueError, match="does not exist"):
        export_checkpoint(tmp_path / "none.ckpt", tmp_path / "b.ckpt")
