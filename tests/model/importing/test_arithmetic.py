"""Imported networks compute what the published system computed: quirks are set as they must be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from amt.config.leaves import leaves
from amt.model.checkpoint_file import load_weights, model_weights, read_checkpoint
from amt.model.importing.computed import computed_tensors, is_computed
from amt.model.importing.convert import build_from, convert_checkpoint

GOLDEN = Path(__file__).parents[2] / "golden" / "model"
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
    fill: Callable[[str, tuple[int, ...]], Tensor | None],
    golden_sound: Callable[[int, int, int], Tensor],
    family: str,
    tmp_path: Path,
) -> None:
    layout, encoder = FAMILIES[family]
    meta = json.loads((GOLDEN / f"{family}.json").read_text())
    with np.load(GOLDEN / f"{family}.npz") as arrays:
        vectors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    state: dict[str, Tensor] = {}
    for name, shape in meta["keys"]:
        filled = fill(name, tuple(shape))
        state[name] = torch.tensor(0) if filled is None else filled
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
    model = build_from(done.experiment).eval()
    load_weights(model, model_weights(read_checkpoint(done.path), done.path), done.path)
    audio = golden_sound(meta["B"], meta["audio_cfg"]["input_frames"], meta["audio_seed"])
    labels = vectors["labels"] if vectors["labels"].ndim == 3 else vectors["labels"][:, None]
    pin_spectrogram(model, audio, vectors)
    with torch.no_grad():
        logits = model(audio, labels)
    flat = logits if multi else logits[:, 0]
    step = tuple(slice(None, None, int(stride)) for stride in vectors["logits_stride"])
    torch.testing.assert_close(flat[step], vectors["logits"], atol=1e-6, rtol=0)
    loss = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), ignore_index=0)
    assert abs(float(loss) - float(vectors["loss"])) < 1e-5
    if float(vectors["greedy_margin"].min()) > 2e-4:
        ids = model.generate(audio, meta["gen_len"])
        expected = vectors["greedy"]
        assert torch.equal(ids, F.pad(expected, (0, ids.shape[2] - expected.shape[2])))


class Stored(torch.nn.Module):
    """Stands for the front end and gives one spectrogram."""

    def __init__(self, spectrogram: Tensor) -> None:
        super().__init__()
        self.spectrogram = spectrogram

    def forward(self, audio: Tensor) -> Tensor:
        return self.spectrogram


def pin_spectrogram(model: Any, audio: Tensor, vectors: dict[str, Tensor]) -> None:
    """Give the network the spectrogram of the golden run: another FFT rounds the extremes otherwise, and they
    scale every bin. Scale and offset are fitted per example."""
    full = model.frontend(audio).double()
    ours = full[tuple(slice(None, None, int(stride)) for stride in vectors["spec_stride"])]
    stored = vectors["spec"].double()
    torch.testing.assert_close(ours, stored, atol=1e-4, rtol=0)
    mean, stored_mean = ours.mean((1, 2), keepdim=True), stored.mean((1, 2), keepdim=True)
    scale = ((ours - mean) * (stored - stored_mean)).sum((1, 2), keepdim=True)
    scale = scale / (ours - mean).square().sum((1, 2), keepdim=True)
    model.frontend = Stored((scale * (full - mean) + stored_mean).float())


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
