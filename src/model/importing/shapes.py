"""Numbers of a published network out of the names and shapes of its weights, part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from .foreign_file import ForeignCheckpoint

Leaves = dict[str, Any]
"""Values by the dotted names of their leaves in ``Experiment``."""

_KERNELS = {(3, 3): "conv", (3, 1): "conv1d_t", (1, 3): "conv1d_f"}


class Weights(Mapping[str, Tensor]):
    """Weights of a file by published name; asking for one that is missing is the user's error, not ours."""

    def __init__(self, foreign: ForeignCheckpoint) -> None:
        self._foreign = foreign

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._foreign.weights[name]
        except KeyError:
            raise ValueError(
                f"{self._foreign.path} lacks {name}; it is not whole, or of a layout that is not known"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._foreign.weights)

    def __len__(self) -> int:
        return len(self._foreign.weights)

    def __contains__(self, name: object) -> bool:
        return name in self._foreign.weights

    def count(self, template: str) -> int:
        """How many different numbers stand for ``#`` where names begin with ``template``."""
        pattern = re.compile(re.escape(template).replace(re.escape("#"), r"(\d+)"))
        return len({match[1] for name in self if (match := pattern.match(name)) is not None})


def audio_leaves(foreign: ForeignCheckpoint, weights: Weights) -> Leaves:
    """Front end: its kind from its window, its numbers from window, filters and settings."""
    spec, mel = "spectrogram.stft.window", "spectrogram.mel_stft.spectrogram.window"
    setting = {name: foreign.setting("audio_cfg", name) for name in ("codec", "hop_length", "f_min", "f_max")}
    codec = "spec" if spec in weights else "melspec" if mel in weights else setting["codec"]
    if codec not in ("spec", "melspec"):
        raise ValueError(
            f"{foreign.path} does not say what its front end is (no spectrogram window and no audio_cfg)"
        )
    leaves: Leaves = {"audio.codec": codec}
    hop = setting["hop_length"]
    leaves["audio.hop_length"] = hop if isinstance(hop, int) else 300 if codec == "spec" else 128
    window = spec if codec == "spec" else mel
    if window in weights:
        leaves["audio.n_fft"] = len(weights[window])
    if codec == "melspec":
        filters = "spectrogram.mel_stft.mel_scale.fb"
        if filters in weights:
            leaves["audio.n_mels"] = weights[filters].shape[1]
        for name in ("f_min", "f_max"):
            if isinstance(setting[name], (int, float)):
                leaves[f"audio.{name}"] = float(setting[name])
    return leaves


def decoder_leaves(foreign: ForeignCheckpoint, weights: Weights) -> Leaves:
    """Decoder, its kind, and the scale of its logits."""
    block = "decoder.decoder.block.0.layer."
    inner, width = weights[block + "0.SelfAttention.q.weight"].shape
    name = "multi-t5" if _is_multi(foreign, weights) else "t5"
    bias = block + "0.SelfAttention.relative_attention_bias.weight"
    heads = _heads(foreign, weights, bias, inner, "decoder", name)
    d_ff = weights[block + "2.DenseReluDense.wi_0.weight"].shape[0]
    tied = foreign.setting("model_cfg", "tie_word_embeddings")
    return {
        "model.decoder_type": name,
        "model.decoder.d_model": width,
        "model.decoder.num_heads": heads,
        "model.decoder.d_kv": inner // heads,
        "model.decoder.num_layers": weights.count("decoder.decoder.block.#."),
        **(
            {"model.decoder.ff_widening": d_ff // width}
            if d_ff % width == 0
            else {"model.decoder.d_ff": d_ff}
        ),
        "model.decoder.position_encoding": "trainable" if bias in weights else "sinusoidal",
        # The word "tied" only scales: once in the head and once more in training. Greedy choice is the same.
        "model.logit_scale": 1.0 if tied is False else 1.0 / width,
    }


def _is_multi(foreign: ForeignCheckpoint, weights: Weights) -> bool:
    if any(name.startswith("pre_decoder.") for name in weights):
        return "pre_decoder.0.linear.weight" in weights
    return bool(foreign.setting("model_cfg", "decoder_type") == "multi-t5")


def _heads(foreign: ForeignCheckpoint, weights: Weights, bias: str, inner: int, side: str, name: str) -> int:
    """Attention heads of a T5 stack: the width of its relative bias, the settings, or heads of 64."""
    if bias in weights:
        return weights[bias].shape[1]
    found = foreign.setting("model_cfg", side, name, "num_heads")
    if isinstance(found, int) and found > 0 and inner % found == 0:
        return found
    return max(1, inner // 64)


def t5_encoder_leaves(foreign: ForeignCheckpoint, weights: Weights) -> Leaves:
    """T5 encoder."""
    block = "encoder.encoder.block.0.layer."
    inner = weights[block + "0.SelfAttention.q.weight"].shape[0]
    bias = block + "0.SelfAttention.relative_attention_bias.weight"
    heads = _heads(foreign, weights, bias, inner, "encoder", "t5")
    positions = "none"
    if bias in weights:
        positions = "trainable"
    elif "encoder.encoder.additive_pe.weight" in weights:
        positions = "sinusoidal"
    return {
        "model.t5_encoder.num_heads": heads,
        "model.t5_encoder.d_kv": inner // heads,
        "model.t5_encoder.num_layers": weights.count("encoder.encoder.block.#."),
        "model.t5_encoder.d_ff": weights[block + "1.DenseReluDense.wi_0.weight"].shape[0],
        "model.t5_encoder.position_encoding": positions,
    }


def conformer_leaves(foreign: ForeignCheckpoint, weights: Weights) -> Leaves:
    """Conformer encoder."""
    layer = "encoder.layers.0."
    heads = foreign.setting("model_cfg", "encoder", "conformer", "num_heads")
    positions, inv_freq = "none", "encoder.embed_positions.inv_freq"
    if layer + "self_attn.pos_bias_u" in weights:
        positions, heads = "relative", weights[layer + "self_attn.pos_bias_u"].shape[0]
    elif inv_freq in weights:
        positions = "rotary"
        heads = weights[layer + "self_attn.linear_q.weight"].shape[0] // (2 * len(weights[inv_freq]))
    return {
        "model.conformer.num_heads": heads if isinstance(heads, int) else 8,
        "model.conformer.num_layers": weights.count("encoder.layers.#."),
        "model.conformer.d_ff": weights[layer + "ffn1.intermediate_dense.weight"].shape[0],
        "model.conformer.conv_kernel": weights[layer + "conv_module.depthwise_conv.weight"].shape[2],
        "model.conformer.position_encoding": positions,
    }


def pre_encoder_leaves(foreign: ForeignCheckpoint, weights: Weights) -> Leaves:
    """Convolutions before Perceiver-TF."""
    first = "pre_encoder.0.blocks.0.conv1.weight"
    if first in weights and "pre_encoder.0.emb_freq.weight" not in weights:
        kernel = (int(weights[first].shape[2]), int(weights[first].shape[3]))
        if kernel not in _KERNELS:
            raise ValueError(f"{foreign.path}: no pre-encoder is known with kernels of {kernel}")
        return {
            "model.pre_encoder.type": _KERNELS[kernel],
            "model.pre_encoder.out_channels": weights[first].shape[0],
        }
    if "pre_encoder.0.emb_freq.weight" in weights and first not in weights:
        return {
            "model.pre_encoder.type": "hftt",
            "model.pre_encoder.out_channels": weights["pre_encoder.0.emb_freq.weight"].shape[0],
        }
    found = sorted(name for name in weights if name.startswith("pre_encoder."))[:3]
    raise ValueError(
        f"{foreign.path}: no pre-encoder is known with weights like {', '.join(found) or 'none'}"
    )


def pre_decoder_leaves(foreign: ForeignCheckpoint, weights: Weights) -> Leaves:
    """Projection behind Perceiver-TF."""
    prefix = "pre_decoder.0."
    if not any(name.startswith(prefix) for name in weights):
        multi = _is_multi(foreign, weights)
        return {"model.pre_decoder_type": "mc_shared_linear" if multi else "linear"}
    for key, kind in (
        ("projection_layer.weight", "linear"),
        ("linear.weight", "mc_shared_linear"),
        ("weight", "group_linear"),
    ):
        if prefix + key in weights:
            return {"model.pre_decoder_type": kind}
    if prefix + "conv.weight" in weights:
        return {"model.pre_decoder_type": f"conv{weights[prefix + 'conv.weight'].shape[3]}"}
    setting = foreign.setting("model_cfg", "pre_decoder_type")
    return {"model.pre_decoder_type": setting if setting in ("mlp_gelu", "mlp_relu") else "mlp"}


def perceiver_leaves(weights: Weights) -> Leaves:
    """Perceiver-TF, as far as shapes show it."""
    block = "encoder.blocks.0."
    cross = block + "spectral_cross_attention."
    latents, width = weights["encoder.latent_array.latents"].shape
    d_model = weights[cross + "output.dense.weight"].shape[0]
    leaves: Leaves = {
        "num_latents": latents,
        "d_latent": width,
        "d_model": d_model,
        "qk_channels": weights[cross + "self.query.weight"].shape[0],
        "v_channels": weights[cross + "self.value.weight"].shape[0],
        "num_blocks": weights.count("encoder.blocks.#."),
        "num_local_layers": weights.count(block + "local_transformer.#."),
        "num_temporal_layers": weights.count(block + "temporal_transformer.#."),
        "norm_type": "layer_norm" if cross + "self.layernorm1.bias" in weights else "rms_norm",
    }
    leaves |= _feed_forward(weights, block, d_model) | {"position_encoding": _positions(weights, latents)}
    return {f"model.encoder.{name}": value for name, value in leaves.items()}


def _feed_forward(weights: Weights, block: str, width: int) -> Leaves:
    kind = "local" if any(name.startswith(block + "local_") for name in weights) else "temporal"
    mlp = f"{block}{kind}_transformer.0.mlp."
    if mlp + "dense1.weight" in weights:
        return {"ff_type": "mlp", "ff_widening": weights[mlp + "dense1.weight"].shape[0] // width}
    if mlp + "experts.0.w1.weight" in weights:
        return {
            "ff_type": "moe",
            "ff_widening": weights[mlp + "experts.0.w1.weight"].shape[0] // width,
            "moe_num_experts": weights.count(mlp + "experts.#."),
        }
    return {"ff_type": "gmlp", "ff_widening": weights[mlp + "w1.weight"].shape[0] // width}


def _positions(weights: Weights, num_latents: int) -> str:
    table = "encoder.pos_emb._pos_emb"
    if "encoder.rotary_emb_sca.freqs" in weights:
        return "rope"
    if "encoder.blocks.0.spectral_cross_attention.self.alibi_bias.slopes" in weights:
        return "alibit"
    if "encoder.pos_emb._pos_emb_temporal" in weights:
        return "kdt"
    if table not in weights:
        return "none"
    if weights[table].ndim == 3:
        return "trainable"
    return "tk" if weights[table].shape[1] == num_latents else "td"


def dropout_leaves(foreign: ForeignCheckpoint, kind: str) -> Leaves:
    """Dropout rates of the file's settings."""
    places = {
        "perceiver-tf": "model.encoder.dropout",
        "t5": "model.t5_encoder.dropout",
        "conformer": "model.conformer.dropout",
    }
    leaves: Leaves = {}
    rate = foreign.setting("model_cfg", "encoder", kind, "dropout_rate")
    if isinstance(rate, (int, float)):
        leaves[places[kind]] = float(rate)
    drop = foreign.setting("model_cfg", "encoder", "conformer", "layerdrop")
    if kind == "conformer" and isinstance(drop, (int, float)):
        leaves["model.conformer.layer_drop"] = float(drop)
    decoder = foreign.setting("model_cfg", "decoder_type")
    if isinstance(decoder, str):
        rate = foreign.setting("model_cfg", "decoder", decoder, "dropout_rate")
        if isinstance(rate, (int, float)):
            leaves["model.decoder.dropout"] = float(rate)
    return leaves
