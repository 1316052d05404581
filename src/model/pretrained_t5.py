"""The decoder, and the encoder of ``-enc t5``, from a T5 v1.1 in a folder of Hugging Face's form.

T5's tokens are words, so embeddings and output matrix are left as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .decoder import T5Decoder
from .encoder import T5Encoder
from .importing.names import NameTable, t5_stack
from .layers.experts import MixtureOfExperts
from .layers.positions import T5_MAX_DISTANCE, T5_NUM_BUCKETS
from .transcriber import Transcriber

CONFIG_FILE = "config.json"
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
"""Files with the weights, by preference; each may come in parts with an index beside them."""
_FIELDS = {"d_model": "--d-model", "d_kv": "--d-kv", "num_heads": "--decoder-heads", "d_ff": "--d-ff"}
"""Fields of T5's configuration that both stacks share, and the flags of the decoder."""


@dataclass(frozen=True)
class _Stack:
    """One of T5's two stacks."""

    name: str
    module: nn.Module
    names: NameTable
    own: Mapping[str, int]
    """Sizes of this network by the fields of T5's configuration."""
    flags: Mapping[str, str]
    positions_flag: str


def load_pretrained_t5(model: Transcriber, folder: Path) -> list[str]:
    """Copy the weights of a T5 v1.1 into the decoder, and into the encoder where that is a T5 too.

    A relative bias is taken where the network has one; T5's sinusoid-free attention is otherwise the same.

    Args:
        model: the network.
        folder: holds ``config.json`` and ``model.safetensors`` or ``pytorch_model.bin``.

    Returns:
        A line for each stack: what was loaded, and what was left as it is.

    Raises:
        ValueError: the folder lacks a file, holds another kind of model, or one of other sizes.
    """
    if isinstance(model.decoder.layers[0].feed_forward, MixtureOfExperts):
        raise ValueError("--pretrained-t5 has no experts for -dff moe: use -dff t5_gmlp")
    config = _read_config(folder)
    stacks = [_decoder_stack(model.decoder)]
    if isinstance(model.encoder, T5Encoder):
        stacks.append(_encoder_stack(model.encoder))
    for stack in stacks:
        _check_sizes(folder, config, stack)
    weights = _read_weights(folder)
    return [_load(folder, weights, stack) for stack in stacks]


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ValueError(
            f"--pretrained-t5 {folder} has no {CONFIG_FILE}: give the folder of a T5 v1.1 in Hugging Face's "
            "form"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"--pretrained-t5: {path} is not JSON ({error})") from None
    if not isinstance(config, dict) or config.get("model_type") != "t5":
        raise ValueError(f"--pretrained-t5: {path} does not describe a T5; give a folder of T5 v1.1")
    kind = config.get("feed_forward_proj", "relu")
    if kind != "gated-gelu":
        raise ValueError(
            f"--pretrained-t5: the T5 in {folder} has the feed-forward {kind}; only T5 v1.1 with gated-gelu "
            "fits"
        )
    buckets = int(config.get("relative_attention_num_buckets", T5_NUM_BUCKETS))
    distance = int(config.get("relative_attention_max_distance", T5_MAX_DISTANCE))
    if (buckets, distance) != (T5_NUM_BUCKETS, T5_MAX_DISTANCE):
        raise ValueError(
            f"--pretrained-t5: the T5 in {folder} has {buckets} distance buckets up to {distance}; only "
            f"{T5_NUM_BUCKETS} up to {T5_MAX_DISTANCE} fit"
        )
    return config


def _read_weights(folder: Path) -> dict[str, Tensor]:
    for name in WEIGHT_FILES:
        index = folder / f"{name}.index.json"
        if (folder / name).is_file():
            return _read_file(folder / name)
        if index.is_file():
            try:
                parts = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise ValueError(f"--pretrained-t5: {index} does not list the parts of the weights") from None
            return {key: value for part in parts for key, value in _read_file(folder / part).items()}
    raise ValueError(f"--pretrained-t5 {folder} has neither {' nor '.join(WEIGHT_FILES)}")


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            weights: dict[str, Tensor] = load_file(path)
        else:
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"--pretrained-t5: {path} cannot be read as weights ({reason})") from error
    return weights


def _inner(module: nn.Module) -> dict[str, int]:
    """Sizes that every layer of a stack shows."""
    attention = module.get_submodule("layers.0.self_attention")
    wi = module.get_parameter("layers.0.feed_forward.wi_0.weight")
    inner, width = module.get_parameter("layers.0.self_attention.q.weight").shape
    heads = int(attention.num_heads)  # type: ignore[arg-type]
    return {"d_model": width, "d_kv": inner // heads, "num_heads": heads, "d_ff": wi.shape[0]}


def _decoder_stack(decoder: T5Decoder) -> _Stack:
    own = _inner(decoder) | {"num_decoder_layers": len(decoder.layers)}
    flags = {**_FIELDS, "num_decoder_layers": "--decoder-layers"}
    names = NameTable(t5_stack("decoder.", "", has_cross_attention=True))
    return _Stack("decoder", decoder, names, own, flags, "-dpe trainable")


def _encoder_stack(encoder: T5Encoder) -> _Stack:
    own = _inner(encoder) | {"num_layers": len(encoder.layers)}
    flags = {
        "d_model": "--d-model",
        "d_kv": "--encoder-d-kv",
        "num_heads": "--num-heads",
        "d_ff": "--encoder-d-ff",
        "num_layers": "--encoder-layers",
    }
    names = NameTable(t5_stack("encoder.", "", has_cross_attention=False))
    return _Stack("encoder", encoder, names, own, flags, "-epe trainable")


def _check_sizes(folder: Path, config: Mapping[str, Any], stack: _Stack) -> None:
    theirs = dict(config)
    theirs.setdefault("num_decoder_layers", theirs.get("num_layers"))
    wrong = [
        f"{flag} {theirs.get(name)}"
        for name, flag in stack.flags.items()
        if theirs.get(name) != stack.own[name]
    ]
    if wrong:
        ours = ", ".join(f"{stack.flags[name]} {size}" for name, size in stack.own.items())
        raise ValueError(
            f"--pretrained-t5: the T5 in {folder} has another {stack.name} than this model ({ours}): add "
            f"{' '.join(wrong)}"
        )


def _load(folder: Path, weights: Mapping[str, Tensor], stack: _Stack) -> str:
    """Copy the weights of one stack; a line that says so."""
    found, _ = stack.names.to_ours(weights)
    state = stack.module.state_dict()
    wanted = [name for name in state if name.startswith(("layers.", "final_norm.", "relative_bias."))]
    missing = [name for name in wanted if name not in found or found[name].shape != state[name].shape]
    if missing:
        raise ValueError(
            f"--pretrained-t5: the weights in {folder} do not fit their {CONFIG_FILE}: "
            f"{stack.name}.{missing[0]} is missing or of another shape ({len(missing)} of {len(wanted)} are)"
        )
    with torch.no_grad():
        for name in wanted:
            state[name].copy_(found[name])
        for module in stack.module.modules():
            scale = getattr(module, "scale", 1.0)
            if scale != 1.0:  # T5 does not scale its scores: its queries are that much smaller
                assert isinstance(scale, float)
                module.get_parameter("q.weight").div_(scale)
    line = f"pretrained T5: {len(wanted)} tensors of the {stack.name} loaded from {folder}"
    if "relative_bias.weight" in found and "relative_bias.weight" not in wanted:
        line += f"; its relative bias is left out ({stack.positions_flag} would take it)"
    return line
