"""From a checkpoint of ours to a file with the names and tensors of a published YourMT3+ checkpoint."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ...config import Experiment
from ...config.leaves import leaves as leaves_of
from ...config.names import listing
from ...config.published_models import get_published_model
from ..checkpoint_content import Say, check_target, silent
from ..checkpoint_file import experiment_of, load_weights, model_weights, read_checkpoint
from ..checkpoint_write import write_checkpoint
from .computed import computed_tensors
from .convert import MAX_NAMED, blank_network
from .names import NameTable
from .structure import check_kind, similar_model


@dataclass(frozen=True)
class Export:
    """What an export did."""

    path: Path
    layout: str | None
    """The published model it is of the kind of; None: of none, though all its parts are published."""
    num_weights: int
    num_computed: int
    """Tensors that a formula gives, written because published files have them."""
    notes: tuple[str, ...]
    """Sentences on what the published code will do otherwise."""


def export_checkpoint(
    src: str | Path,
    dst: str | Path,
    *,
    layout: str | None = None,
    overwrite: bool = False,
    say: Say | None = None,
) -> Export:
    """Write ``dst`` with the state dict that the published code loads, from the checkpoint ``src`` of ours.

    Args:
        src: a checkpoint of ours.
        dst: the new file.
        layout: a key of ``PUBLISHED_MODELS`` that the model must be of the kind of; None takes one that
            fits.
        overwrite: replace ``dst``.
        say: told what is going on, a sentence at a time.

    Raises:
        ValueError: the file is broken, or its model has parts that the published code does not have.
        OSError: when ``dst`` cannot be written.
    """
    src, dst, say = Path(src), Path(dst), say or silent
    if layout is not None:
        get_published_model(layout)
    check_target([src], dst, overwrite)
    say(f"reading {src}")
    checkpoint = read_checkpoint(src, mmap=True)
    experiment = experiment_of(checkpoint, src)
    leaves = dict(leaves_of(experiment))
    if layout is not None:
        check_kind(src, leaves, layout)
    foreign_parts = unpublished(experiment)
    if foreign_parts:
        raise ValueError(f"{src}: the published code has no {', no '.join(foreign_parts)}")
    weights = model_weights(checkpoint, src)
    load_weights(blank_network(experiment), weights, src)
    state = published_state(weights, experiment, src)
    found = layout or similar_model(leaves)
    say(f"writing {dst}")
    written = {
        "state_dict": state,
        "global_step": checkpoint.get("global_step", 0),
        "epoch": checkpoint.get("epoch", 0),
        "hyper_parameters": published_settings(experiment),
    }
    write_checkpoint(written, dst)
    num_computed = len(computed_tensors(experiment))
    return Export(dst, found, len(state) - num_computed, num_computed, tuple(_notes(experiment)))


def published_state(weights: Mapping[str, Tensor], experiment: Experiment, path: Path) -> dict[str, Tensor]:
    """The state dict of the published code for a network of ours.

    Raises:
        ValueError: lists weights that the published code does not have.
    """
    state, unknown = NameTable.of(experiment.model).to_published(weights)
    if unknown:
        raise ValueError(
            f"{path}: the published code has no place for {len(unknown)} weights: "
            f"{listing(unknown, MAX_NAMED)}"
        )
    return computed_tensors(experiment) | {name: value.contiguous() for name, value in state.items()}


def published_settings(experiment: Experiment) -> dict[str, Any]:
    """``hyper_parameters`` of the published code, as far as its numbers are not in the shapes."""
    audio, model = experiment.audio, experiment.model
    encoder: dict[str, Any] = {}
    if model.encoder_type == "perceiver-tf":
        config = model.encoder
        encoder = {
            "num_self_attention_heads": config.num_heads,
            "num_cross_attention_heads": config.num_heads,
            "hidden_act": config.hidden_act,
            "sca_use_query_residual": config.sca_query_residual,
            "attention_to_channel": config.attention_to_channel,
            "moe_topk": config.moe_topk,
            "rope_apply_to_keys": config.rope_apply_to_keys,
            "rope_partial_pe": config.rope_partial,
            "dropout_rate": config.dropout,
        }
    elif model.encoder_type == "t5":
        encoder = {"num_heads": model.t5_encoder.num_heads, "dropout_rate": model.t5_encoder.dropout}
    else:
        encoder = {
            "num_heads": model.conformer.num_heads,
            "dropout_rate": model.conformer.dropout,
            "layerdrop": model.conformer.layer_drop,
        }
    return {
        "audio_cfg": {
            "codec": audio.codec,
            "hop_length": audio.hop_length,
            "sample_rate": audio.sample_rate,
            "input_frames": audio.segment_samples,
            "n_fft": audio.n_fft,
            "n_mels": audio.n_mels,
            "f_min": audio.f_min,
            "f_max": audio.f_max,
        },
        "model_cfg": {
            "encoder_type": model.encoder_type,
            "decoder_type": model.decoder_type,
            "pre_encoder_type": None if model.pre_encoder.type == "none" else model.pre_encoder.type,
            "pre_decoder_type": None if model.pre_decoder_type == "none" else model.pre_decoder_type,
            "event_length": experiment.event_length,
            "tie_word_embeddings": model.logit_scale != 1.0,
            "encoder": {model.encoder_type: encoder},
            "decoder": {
                model.decoder_type: {
                    "num_heads": model.decoder.num_heads,
                    "dropout_rate": model.decoder.dropout,
                }
            },
        },
        "task_manager": {"task_name": experiment.task},
    }


def unpublished(experiment: Experiment) -> list[str]:
    """Parts of a network that have no weights of their own and that the published code lacks."""
    model = experiment.model
    encoder, decoder = model.encoder, model.decoder
    parts = {
        "front end logspec": experiment.audio.codec == "logspec",
        "known names for experts in the decoder": decoder.ff_type == "moe",
        "memory positions": model.memory_positions != "none",
        "scaled attention in the decoder": decoder.scaled_attention,
        "scaled decoder positions": decoder.position_scale != 1.0
        and decoder.position_encoding == "sinusoidal",
    }
    if model.encoder_type == "perceiver-tf":
        kind = encoder.position_encoding
        parts["sinusoidal positions in Perceiver-TF"] = kind == "sinusoidal"
        parts[f"alibi scale {encoder.alibi_scale}"] = kind in ("alibi", "alibit") and not math.isclose(
            encoder.alibi_scale, encoder.head_width**-0.5, rel_tol=1e-6
        )
        if kind == "rope":
            width = encoder.rope_width or encoder.head_width
            parts[f"rotary width {width} with {encoder.num_heads} heads"] = width != encoder.num_heads
    return [name for name, is_there in parts.items() if is_there]


def _notes(experiment: Experiment) -> list[str]:
    model = experiment.model
    notes = []
    trained = 1.0 / model.decoder.d_model
    if not math.isclose(model.logit_scale, trained, rel_tol=1e-6) and model.logit_scale != 1.0:
        notes.append(
            f"the published code scales logits by {trained:g} in training, not {model.logit_scale:g}; greedy "
            "choice is the same"
        )
    if model.logit_scale == 1.0:
        notes.append(
            "logits were not scaled in this model: set tie_word_embeddings to False in the published code to "
            "train on; greedy choice is the same"
        )
    sizes = [
        f"{field.name} {getattr(model.encoder, field.name)}"
        for field in dataclasses.fields(model.encoder)
        if field.name in ("d_latent", "d_model", "qk_channels", "v_channels")
        and getattr(model.encoder, field.name) != 128
    ]
    if model.encoder_type == "perceiver-tf" and sizes:
        notes.append(
            f"no flag of the published code sets {', '.join(sizes)}: edit its encoder's configuration"
        )
    return notes
