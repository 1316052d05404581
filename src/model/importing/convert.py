"""From a published YourMT3+ checkpoint to an ordinary checkpoint of ours."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...config import Experiment
from ...config.leaves import replace_leaves
from ...config.names import counted, listing
from ...config.published_models import PUBLISHED_MODELS, get_published_model
from ...tokenizer import NoteTokenizer
from ..build import build_from
from ..checkpoint_content import Say, check_target, silent, weights_only_content, write_with_sidecar
from ..checkpoint_file import WEIGHTS_PREFIX, load_weights
from ..transcriber import Transcriber
from .computed import differing, is_computed
from .foreign_file import ForeignCheckpoint, read_foreign
from .names import NameTable
from .structure import check_kind, network_leaves, similar_model
from .tokens import token_leaves

MAX_NAMED = 12
"""Weights that a message names."""


@dataclass(frozen=True)
class Conversion:
    """What a conversion did."""

    path: Path
    experiment: Experiment
    layout: str | None
    """The published model it is of the kind of."""
    num_weights: int
    """Tensors that were taken over."""
    num_values: int
    """Numbers in them."""
    num_computed: int
    """Tensors that a formula gives and that were found equal to it."""
    dropped: tuple[str, ...]
    """Names of tensors left out: kernels of the pitch shifter."""
    assumed: tuple[str, ...]
    """Sentences about what neither the file nor the caller said."""


def convert_checkpoint(
    src: str | Path,
    dst: str | Path,
    *,
    layout: str | None = None,
    task: str | None = None,
    segment_samples: int | None = None,
    licence: str = "",
    overwrite: bool = False,
    say: Say | None = None,
) -> Conversion:
    """Write the published checkpoint ``src`` as a checkpoint of ours, ``dst``, with a JSON file beside it.

    The file's own pickled classes are never run. Every weight must have its place in our network and every
    weight of ours a value, else nothing is written.

    Args:
        src: a Lightning file of YourMT3+ or of a fork with its layout, or a state dict.
        dst: the new file (``.ckpt``).
        layout: a key of ``PUBLISHED_MODELS`` that the file must be of the kind of; it also settles what the
            file does not say. None takes the one it looks like.
        task: name of the task, when the file does not say it.
        segment_samples: samples of a segment, likewise.
        licence: noted in the file; empty refers to the publisher.
        overwrite: replace ``dst``.
        say: told what is going on, a sentence at a time.

    Raises:
        ValueError: one sentence on what is wrong with the file, or does not fit.
        OSError: when ``dst`` cannot be written.
    """
    src, dst, say = Path(src), Path(dst), say or silent
    if layout is not None:
        get_published_model(layout)
    check_target([src], dst, overwrite)
    say(f"reading {src}")
    foreign = read_foreign(src)
    experiment, found, assumed = describe(foreign, layout, task, segment_samples)
    experiment = dataclasses.replace(experiment, exp_id=dst.name.removesuffix(".ckpt") or "converted")
    say(f"{src.name} is {_kind(experiment, found)}")
    weights, num_computed = own_weights(foreign, experiment)
    say(f"{len(weights)} weights fit, {counted(num_computed, 'computed tensor')} as published")
    model = blank_network(experiment)
    load_weights(model, weights, src)
    state = {WEIGHTS_PREFIX + name: value for name, value in model.state_dict().items()}
    say(f"writing {dst}")
    source = {
        "file": src.name,
        "size": src.stat().st_size,
        "sha256": _digest(src),
        "layout": found or "",
        "step": foreign.step,
        "epoch": foreign.epoch,
        "assumed": list(assumed),
    }
    licence = licence or _default_licence(src)
    content = weights_only_content(experiment, state, licence, source, foreign.step or 0, foreign.epoch or 0)
    write_with_sidecar(dst, content)
    return Conversion(
        dst,
        experiment,
        found,
        len(weights),
        sum(value.numel() for value in weights.values()),
        num_computed,
        foreign.dropped,
        tuple(assumed),
    )


def describe(
    foreign: ForeignCheckpoint,
    layout: str | None = None,
    task: str | None = None,
    segment_samples: int | None = None,
) -> tuple[Experiment, str | None, list[str]]:
    """The configuration of a published checkpoint, the published model it is like, and what was assumed.

    Raises:
        ValueError: when it is no published checkpoint, or not of the kind of ``layout``.
    """
    leaves, assumed = network_leaves(foreign, layout)
    if layout is not None:
        check_kind(foreign.path, leaves, layout)
    found = layout or similar_model(leaves)
    row = PUBLISHED_MODELS[found] if found is not None else {}
    leaves = leaves | token_leaves(foreign, leaves, row, task, segment_samples)
    return replace_leaves(Experiment(), leaves), found, assumed


def own_weights(foreign: ForeignCheckpoint, experiment: Experiment) -> tuple[dict[str, Tensor], int]:
    """The weights under our names in float32, and how many computed tensors were checked.

    Raises:
        ValueError: lists weights that have no place, and computed tensors with other values.
    """
    learned = {name: value for name, value in foreign.weights.items() if not is_computed(name)}
    weights, unknown = NameTable.of(experiment.model).to_ours(learned)
    if unknown:
        raise ValueError(
            f"{foreign.path}: {len(unknown)} of {len(learned)} weights have no place in the model: "
            f"{listing(unknown, MAX_NAMED)}"
        )
    wrong = differing(foreign.weights, experiment)
    if wrong:
        raise ValueError(
            f"{foreign.path}: {len(wrong)} tensors that a formula gives are not as published, so the model "
            f"would differ: {listing(wrong, MAX_NAMED, '; ')}"
        )
    whole = {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}
    return whole, len(foreign.weights) - len(learned)


def blank_network(experiment: Experiment) -> Transcriber:
    """The network of an experiment with random weights; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        return build_from(experiment, NoteTokenizer.from_experiment(experiment))


def _kind(experiment: Experiment, layout: str | None) -> str:
    name = f"a {layout}" if layout is not None else "a model of no published name"
    return (
        f"{name}: {experiment.model.encoder_type} and {experiment.model.decoder_type}, task {experiment.task}"
    )


def _default_licence(src: Path) -> str:
    return (
        f"Weights of {src.name}, made by others and only converted: the licence of their publisher holds, "
        "and the rights in their training data."
    )


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
