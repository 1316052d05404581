"""New checkpoints out of others: the mean of several, a mixture of two, the weights of one alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import Experiment
from ..config.leaves import leaves
from ..config.names import listing
from .checkpoint_content import Say, check_target, silent, weights_only_content, write_with_sidecar
from .checkpoint_file import WEIGHTS_PREFIX, experiment_of, model_weights, read_checkpoint
from .checkpoint_info import last_score

Progress = Callable[[int, int], None]
"""Called with the numbers done and the numbers in all."""
_COMPARED = ("task", "event_length", "audio.", "model.")
_NUMBERS_OF_TRAINING = (".dropout", ".layer_drop", ".init_std", ".shift_embedding_init")
"""Leaves of a model that change how it is trained and not what its weights mean."""
_MAX_NAMED = 6


@dataclass(frozen=True)
class _Source:
    path: Path
    checkpoint: Mapping[str, Any]
    experiment: Experiment
    weights: Mapping[str, Tensor]

    @property
    def step(self) -> int:
        return int(self.checkpoint.get("global_step") or 0)

    @property
    def epoch(self) -> int:
        return int(self.checkpoint.get("epoch") or 0)


def average_checkpoints(
    sources: Sequence[str | Path],
    out: str | Path,
    *,
    overwrite: bool = False,
    say: Say | None = None,
    progress: Progress | None = None,
) -> int:
    """Write ``out`` with the mean of the weights of ``sources`` and return how many tensors it has.

    Averaging the last or best files of a run is often better than each of them (Izmailov et al. 2018,
    "Averaging Weights Leads to Wider Optima and Better Generalization").

    Raises:
        ValueError: fewer than two files, a broken one, or files of different models.
        OSError: when ``out`` cannot be written.
    """
    if len(sources) < 2:
        raise ValueError(f"averaging needs at least two checkpoints, not {len(sources)}")
    shares = [1.0 / len(sources)] * len(sources)
    return _combine([Path(item) for item in sources], shares, Path(out), "average", overwrite, say, progress)


def mix_checkpoints(
    a: str | Path,
    b: str | Path,
    alpha: float,
    out: str | Path,
    *,
    overwrite: bool = False,
    say: Say | None = None,
    progress: Progress | None = None,
) -> int:
    """Write ``out`` with ``(1 - alpha) · a + alpha · b`` and return how many tensors it has.

    With ``a`` the model before fine-tuning and ``b`` the one after it, an ``alpha`` between keeps what the
    first could do (Wortsman et al. 2022, "Robust Fine-Tuning of Zero-Shot Models").

    Raises:
        ValueError: ``alpha`` is not from 0 to 1, a file is broken, or the two are of different models.
        OSError: when ``out`` cannot be written.
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"--alpha is the share of the second file, from 0 to 1, not {alpha:g}")
    return _combine([Path(a), Path(b)], [1.0 - alpha, alpha], Path(out), "mix", overwrite, say, progress)


def strip_checkpoint(
    src: str | Path, dst: str | Path, *, overwrite: bool = False, say: Say | None = None
) -> tuple[int, int]:
    """Write ``dst`` with the weights of ``src`` and what describes them, without the state of training.

    Returns:
        Bytes before and after.

    Raises:
        ValueError: the file is broken or no checkpoint of ours.
        OSError: when ``dst`` cannot be written.
    """
    src, dst, say = Path(src), Path(dst), say or silent
    check_target([src], dst, overwrite)
    say(f"reading {src}")
    source = _read(src)
    origin = dict(source.checkpoint.get("source") or {}) | {"stripped_from": src.name}
    score = last_score(source.checkpoint)
    if score is not None:
        origin["score"] = {score[0]: score[1]}
    _write(dst, source.weights, str(source.checkpoint.get("licence", "")), origin, [source], say)
    return src.stat().st_size, dst.stat().st_size


def _combine(
    paths: Sequence[Path],
    shares: Sequence[float],
    out: Path,
    kind: str,
    overwrite: bool,
    say: Say | None,
    progress: Progress | None,
) -> int:
    say = say or silent
    check_target(paths, out, overwrite)
    sources = []
    for number, path in enumerate(paths, 1):
        say(f"reading {number} of {len(paths)}: {path}")
        sources.append(_read(path))
        if number > 1:
            _check_same(sources[0], sources[-1])
    total = sum(value.numel() for value in sources[0].weights.values())
    done = 0
    combined: dict[str, Tensor] = {}
    for name, first in sources[0].weights.items():
        combined[name] = _weighted([source.weights[name] for source in sources], shares)
        done += first.numel()
        if progress is not None:
            progress(done, total)
    licences = dict.fromkeys(str(source.checkpoint.get("licence", "")) for source in sources)
    origin = {
        "made_by": kind,
        "files": [source.path.name for source in sources],
        "steps": [source.step for source in sources],
        "shares": list(shares),
    }
    licence = " | ".join(text for text in licences if text)
    _write(out, combined, licence, origin, sources, say)
    return len(combined)


def _weighted(parts: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Σ share · part in float64, given in the type of the first; of counters the largest."""
    if not parts[0].is_floating_point():
        return torch.stack([part.to(parts[0].dtype) for part in parts]).amax(0)
    mean = torch.zeros(parts[0].shape, dtype=torch.float64)
    for part, share in zip(parts, shares, strict=True):
        if share:  # 0 times what is not finite would not be 0
            mean.add_(part.double(), alpha=share)
    return mean.to(parts[0].dtype)


def _read(path: Path) -> _Source:
    checkpoint = read_checkpoint(path, mmap=True)
    return _Source(path, checkpoint, experiment_of(checkpoint, path), model_weights(checkpoint, path))


def _check_same(one: _Source, other: _Source) -> None:
    """Refuse files whose weights do not stand for the same things."""
    old, new = dict(leaves(one.experiment)), dict(leaves(other.experiment))
    differing = [
        f"{name} {old[name]} and {new[name]}"
        for name in old
        if name.startswith(_COMPARED) and not name.endswith(_NUMBERS_OF_TRAINING) and old[name] != new[name]
    ]
    names = set(one.weights) ^ set(other.weights)
    shapes = [
        f"{name} {tuple(value.shape)} and {tuple(other.weights[name].shape)}"
        for name, value in one.weights.items()
        if name in other.weights and value.shape != other.weights[name].shape
    ]
    only = [f"only one has {name}" for name in sorted(names)]
    problems = differing or [*only, *shapes]
    if problems:
        raise ValueError(
            f"{one.path} and {other.path} are of different models, so their weights cannot be combined: "
            f"{listing(problems, _MAX_NAMED, '; ')}"
        )


def _write(
    out: Path,
    weights: Mapping[str, Tensor],
    licence: str,
    origin: Mapping[str, Any],
    sources: Sequence[_Source],
    say: Say,
) -> None:
    say(f"writing {out}")
    state = {WEIGHTS_PREFIX + name: value for name, value in weights.items()}
    newest = max(sources, key=lambda source: source.step)
    content = weights_only_content(sources[0].experiment, state, licence, origin, newest.step, newest.epoch)
    write_with_sidecar(out, content)
