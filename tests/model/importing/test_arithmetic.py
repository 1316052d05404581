"""Imported networks compute what the published system computed: quirks are set as they must be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from amt.config.leaves import leaves
from amt.model.checkpoint_file import load_weights, model_weights, read_checkpoint
from amt.model.importing.computed import computed_tensors, is_computed
from amt.model.importing.convert import blank_network, convert_checkpoint

FAMILIES = {
    "t5_t5": ("ymt3plus", "t5"),
    "conformer_t5": ("conformer_t5", "conformer"),
    "ptf_multi_t5_mlp_trainable": ("yptf_multi", "perceiver-tf"),
    "ptf_multi_t5_moe_rope": ("yptf_moe_multi", "perceiver-tf"),
}


def settings(meta: dict[str, Any], encoder: str, multi: bool) -> dict[str, Any]:
    """``hyper_parameters`` as the published code stored them."""
    decoder = "multi-t5" if multi else "t5"
    return {
        "audio_cfg": meta["audio_cfg"],
        "model_cfg": {
            "encoder_type": encoder,
            "decoder_type": decoder,
            "event_length": 64,
            "tie_word_embeddings": True,
            "encoder": {encoder: meta["encoder_cfg"]},
            "decoder": {decoder: meta["decoder_cfg"]},
        },
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_tokens(
    samples: ModuleType,
    fill_rule: ModuleType,
    golden: Callable[[str], dict[str, Tensor]],
    golden_json: Callable[[str], dict[str, Any]],
    golden_audio: Callable[[int, int, int], Tensor],
    pin_spectrogram: Callable[[Any, Tensor, dict[str, Tensor]], None],
    stored_part: Callable[[Tensor, dict[str, Tensor], str], Tensor],
    family: str,
    tmp_path: Path,
) -> None:
    layout, encoder = FAMILIES[family]
    meta, vectors = golden_json(family), golden(family)
    state: dict[str, Tensor] = {}
    for name, shape in meta["keys"]:
        filled = fill_rule.filled(name, tuple(shape))
        state[name] = torch.tensor(0) if filled is None else torch.from_numpy(filled)
    if "eos_row" in vectors:
        state["lm_head.lm_head.weight"][1] = vectors["eos_row"]
    else:
        state["lm_head.lm_head.weight"][1] *= meta["eos_row_factor"]
    multi = layout.endswith("multi")
    # The golden files leave out what a formula gives; the published code stored it.
    experiment = samples.small(
        layout,
        model__encoder__rope_types="ppl",
        audio__n_mels=meta["audio_cfg"]["n_mels"],
        model__decoder__d_model=32,
        **({"model__conformer__num_heads": 4} if encoder == "conformer" else {}),
        **depth(meta, encoder),
    )
    state |= computed_tensors(experiment)
    assert {name for name in state if is_computed(name)} == {
        name for name, _ in meta["keys"] if is_computed(name)
    }
    source = samples.lightning_file(
        tmp_path / "published.ckpt", state, hyper_parameters=settings(meta, encoder, multi)
    )
    done = convert_checkpoint(source, tmp_path / "ours.ckpt")
    assert done.layout == layout
    assert done.assumed == ()
    quirks = dict(leaves(done.experiment.model))
    assert quirks["logit_scale"] == 1 / 32
    if layout == "yptf_moe_multi":
        assert quirks["encoder.rope_width"] == 8
        assert quirks["encoder.rope_partial"] is True
        assert quirks["encoder.rope_apply_to_keys"] is False
        assert quirks["encoder.norm_type"] == "layer_norm"
    model = blank_network(done.experiment).eval()
    load_weights(model, model_weights(read_checkpoint(done.path), done.path), done.path)
    audio = golden_audio(meta["B"], meta["audio_cfg"]["input_frames"], meta["audio_seed"])
    labels = vectors["labels"] if vectors["labels"].ndim == 3 else vectors["labels"][:, None]
    pin_spectrogram(model, audio, vectors)
    with torch.no_grad():
        logits = model(audio, labels)
    flat = logits if multi else logits[:, 0]
    torch.testing.assert_close(stored_part(flat, vectors, "logits"), vectors["logits"], atol=1e-6, rtol=0)
    loss = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), ignore_index=0)
    assert abs(float(loss) - float(vectors["loss"])) < 1e-5
    if float(vectors["greedy_margin"].min()) > 2e-4:
        ids = model.generate(audio, meta["gen_len"])
        expected = vectors["greedy"]
        assert torch.equal(ids, F.pad(expected, (0, ids.shape[2] - expected.shape[2])))


def depth(meta: dict[str, Any], encoder: str) -> dict[str, int]:
    """Numbers of layers of a golden network, which the computed tensors depend on."""
    if encoder != "perceiver-tf":
        return {}
    config = meta["encoder_cfg"]
    return {
        "model__encoder__num_blocks": config["num_blocks"],
        "model__encoder__num_local_layers": config["num_local_transformers_per_block"],
        "model__encoder__num_temporal_layers": config["num_temporal_transformers_per_block"],
        "model__encoder__qk_channels": config["qk_channels"],
    }
