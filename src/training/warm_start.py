"""Warm start: another run's weights as the start of this one, with a report of what fitted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config.audio import max_shift_steps
from ..config.names import listing
from ..model.checkpoint_file import model_weights, read_checkpoint
from ..tokenizer.vocabulary import TokenLayout
from .patterns import check_patterns, fits

_MAX_NAMED = 8
CORE_PARTS = ("encoder", "decoder")
"""Parts of the network that a warm start must touch, unless patterns leave them out."""
_TOKEN_TABLES = ("embed", "lm_head")
"""Parts of names of the tensors with a row for each token."""


def load_warm_start(
    model: nn.Module,
    path: Path,
    layout: TokenLayout | None = None,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> list[str]:
    """Copy the weights that fit from a checkpoint into ``model``.

    Where the file's task or segment length gives tokens other ids, the rows of token embeddings and output
    matrix are matched by meaning: ``pitch 60`` goes to ``pitch 60``, and tokens that are new keep the
    model's own rows.

    Args:
        model: the network.
        path: a checkpoint file.
        layout: the model's tokens; None copies token tables only when their shapes are equal.
        include: patterns of names to take; empty takes all.
        exclude: patterns of names to leave out.

    Returns:
        The report, a line each: totals by part of the network, tokens, and what was missing in the file,
        unexpected in it, of another shape, left out.

    Raises:
        ValueError: when the file cannot be read, a pattern fits no weight in it, or the encoder or the
            decoder would stay untouched though no pattern leaves it out.
    """
    checkpoint = read_checkpoint(path, mmap=True)
    weights = model_weights(checkpoint, path)
    check_patterns("--init-include", include, weights)
    check_patterns("--init-exclude", exclude, weights)
    own = model.state_dict()

    def wanted(name: str) -> bool:
        return (not include or fits(name, include)) and not fits(name, exclude)

    left_out = [name for name in own if name in weights and not wanted(name)]
    chosen = {name: value for name, value in weights.items() if wanted(name)}
    tokens = _match_tokens(checkpoint, own, chosen, layout)
    fitting = {name for name, value in own.items() if name in chosen and chosen[name].shape == value.shape}
    lists = {
        "missing in the file": [name for name in own if name not in weights],
        "unexpected in the file": [name for name in weights if name not in own],
        "of another shape, left as they are": [
            f"{name} {tuple(chosen[name].shape)} -> {tuple(value.shape)}"
            for name, value in own.items()
            if name in chosen and name not in fitting
        ],
        "left out by --init-include or --init-exclude": left_out,
    }
    problems = [_listed(label, names) for label, names in lists.items() if names]
    _refuse_untouched(path, own, fitting, wanted, problems)
    with torch.no_grad():
        model.load_state_dict({name: chosen[name] for name in fitting}, strict=False)
    head = f"warm start from {path}: {len(fitting)} of {len(own)} tensors loaded"
    return [head, *_totals(own, fitting), *tokens, *problems]


def stored_layout(checkpoint: Mapping[str, Any]) -> TokenLayout | None:
    """The token ids of a checkpoint's task and segment length; None when it does not say."""
    try:
        audio = json.loads(checkpoint["experiment"])["AUDIO"]
        extra = tuple(str(token) for token in json.loads(checkpoint["task"])["extra_tokens"])
        return TokenLayout(extra, max_shift_steps(int(audio["segment_samples"]), int(audio["sample_rate"])))
    except (KeyError, TypeError, ValueError):
        return None


def _match_tokens(
    checkpoint: Mapping[str, Any],
    own: Mapping[str, Tensor],
    chosen: dict[str, Tensor],
    layout: TokenLayout | None,
) -> list[str]:
    """Bring the file's token tables in ``chosen`` in the order of ``layout``; what to say of it."""
    old = stored_layout(checkpoint)
    if layout is None or old is None or old == layout:
        return []
    places = {old.describe(token): token for token in range(old.size)}
    texts = [layout.describe(token) for token in range(layout.size)]
    pairs = [(token, places[text]) for token, text in enumerate(texts) if text in places]
    new_rows = torch.tensor([new for new, _ in pairs])
    old_rows = torch.tensor([before for _, before in pairs])
    tables: list[str] = []
    for name, value in own.items():
        if name not in chosen or not any(part in _TOKEN_TABLES for part in name.split(".")):
            continue
        axis = _token_axis(chosen[name], value, old.size, layout.size)
        if axis is not None:
            rows = chosen[name].index_select(axis, old_rows).to(value.device, value.dtype)
            chosen[name] = value.clone().index_copy_(axis, new_rows.to(value.device), rows)
            tables.append(name)
    if not tables:
        return []
    fresh = [text for text in texts if text not in places]
    known = set(texts)
    lost = [text for text in places if text not in known]
    report = [
        f"  tokens: {len(pairs)} of {layout.size} rows of {', '.join(tables)} matched by meaning "
        f"(the file has {old.size} tokens)"
    ]
    if fresh:
        report.append(f"  tokens: {len(fresh)} new ones keep their own start: {listing(fresh, _MAX_NAMED)}")
    if lost:
        report.append(f"  tokens: {len(lost)} of the file are not used: {listing(lost, _MAX_NAMED)}")
    return report


def _token_axis(old: Tensor, new: Tensor, old_size: int, new_size: int) -> int | None:
    """The axis of a token table that counts tokens, when the others agree."""
    if old.ndim != new.ndim:
        return None
    for axis in range(old.ndim):
        others = [size for place, size in enumerate(old.shape) if place != axis]
        same = others == [size for place, size in enumerate(new.shape) if place != axis]
        if same and (old.shape[axis], new.shape[axis]) == (old_size, new_size):
            return axis
    return None


def _refuse_untouched(
    path: Path, own: Iterable[str], fitting: set[str], wanted: Callable[[str], bool], problems: list[str]
) -> None:
    untouched = [
        part
        for part in CORE_PARTS
        if any(name.startswith(f"{part}.") and wanted(name) for name in own)
        and not any(name.startswith(f"{part}.") for name in fitting)
    ]
    if untouched:
        raise ValueError(
            f"--init-ckpt {path}: no weight of the {' and the '.join(untouched)} fits this model, so this "
            "would be no warm start; give the model options the file was trained with, or leave the part out "
            f"with --init-exclude. {' '.join(problems)}"
        )
    if not fitting:
        raise ValueError(f"--init-ckpt {path}: no weight that was asked for fits. {' '.join(problems)}")


def _totals(own: Mapping[str, Tensor], fitting: set[str]) -> list[str]:
    """Loaded tensors and numbers of each part of the network."""
    parts = dict.fromkeys(name.partition(".")[0] for name in own)
    lines = []
    for part in parts:
        members = [name for name in own if name.partition(".")[0] == part]
        loaded = [name for name in members if name in fitting]
        numbers, total = (sum(own[name].numel() for name in names) for names in (loaded, members))
        counts = f"{len(loaded)} of {len(members)} tensors, {numbers:,} of {total:,} numbers"
        lines.append(f"  {part:<12} {counts}")
    return lines


def _listed(label: str, names: Sequence[str]) -> str:
    return f"  {len(names)} {label}: {listing(names, _MAX_NAMED)}"
