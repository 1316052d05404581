"""What a checkpoint file is, in lines for a reader: task, model, step, scores, size, licence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ..config import Experiment
from ..config.names import counted
from .checkpoint_file import experiment_of, model_weights, read_checkpoint
from .checkpoint_header import CALLBACK_KEY, diagnose_file, parse_ranking, read_header
from .importing.convert import describe
from .importing.foreign_file import ForeignCheckpoint, read_foreign

Line = tuple[str, str]
"""A label and its text."""


def describe_checkpoint(path: str | Path) -> list[Line]:
    """Labels and texts about a checkpoint of ours, or of a published one that can be converted.

    Raises:
        ValueError: one sentence on what is wrong with the file.
    """
    path = Path(path)
    problem = diagnose_file(path)
    if problem is not None:
        raise ValueError(f"{path} {problem}")
    lines = [("file", f"{path} ({size_text(path.stat().st_size)})")]
    header = read_header(path)
    if header is not None and header.experiment:
        return lines + _ours(path, header.complete)
    return lines + _foreign(read_foreign(path))


def last_score(checkpoint: Mapping[str, Any]) -> tuple[str, float] | None:
    """Name and value of the score a training checkpoint had at its last validation."""
    state = _callback_state(checkpoint)
    name, score = state.get("monitor"), state.get("last_score")
    return (name, float(score)) if isinstance(name, str) and isinstance(score, (int, float)) else None


def size_text(size: int) -> str:
    """Bytes as people say them."""
    return (
        f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size} bytes"
    )


def _ours(path: Path, complete: bool) -> list[Line]:
    checkpoint = read_checkpoint(path, mmap=True)
    experiment = experiment_of(checkpoint, path)
    weights = model_weights(checkpoint, path)
    kind = (
        "training checkpoint: can be resumed, transcribed with and warm-started from"
        if complete
        else "weights only: can be transcribed with and warm-started from (--init-ckpt), not resumed"
    )
    lines = [
        ("kind", kind),
        ("run", f"{experiment.project}/{experiment.exp_id}"),
        ("step", f"{checkpoint.get('global_step', 0)}, epoch {checkpoint.get('epoch', 0)}"),
        *_scores(checkpoint),
        *_model_lines(experiment, weights),
    ]
    if experiment.init_ckpt:
        lines.append(("warm start from", experiment.init_ckpt))
    source = checkpoint.get("source")
    if isinstance(source, Mapping) and source:
        lines.append(("made from", ", ".join(f"{name} {_plain(value)}" for name, value in source.items())))
    lines.append(("licence", str(checkpoint.get("licence") or "not noted")))
    versions = checkpoint.get("versions")
    if isinstance(versions, Mapping):
        lines.append(("written by", ", ".join(f"{name} {value}" for name, value in versions.items())))
    return lines


def _foreign(foreign: ForeignCheckpoint) -> list[Line]:
    experiment, layout, assumed = describe(foreign)
    lines = [
        ("kind", f"published checkpoint, like {layout or 'no published model'}: amt-convert makes it ours"),
        ("step", f"{'unknown' if foreign.step is None else foreign.step}"),
        *_model_lines(experiment, foreign.weights),
    ]
    lines += [("assumed", sentence) for sentence in assumed]
    if foreign.dropped:
        lines.append(("left out", f"{counted(len(foreign.dropped), 'kernel')} of the pitch shifter"))
    return lines


def _model_lines(experiment: Experiment, weights: Mapping[str, Tensor]) -> list[Line]:
    model, audio = experiment.model, experiment.audio
    numbers = sum(value.numel() for value in weights.values())
    parts = f"{model.encoder_type} encoder, {model.decoder_type} decoder"
    if model.encoder_type == "perceiver-tf":
        config = model.encoder
        parts += (
            f"; {config.num_latents} latents of {config.d_latent}, {config.num_blocks} blocks, "
            f"{config.ff_type}, positions {config.position_encoding}"
        )
    return [
        ("task", f"{experiment.task}, sequences up to {experiment.event_length} tokens"),
        ("model", parts),
        ("weights", f"{counted(len(weights), 'tensor')}, {numbers / 1e6:.2f} million numbers"),
        (
            "hears",
            f"{audio.codec}, hop {audio.hop_length}, segments of {audio.segment_samples} samples "
            f"({audio.segment_seconds:.3f} s at {audio.sample_rate} Hz)",
        ),
    ]


def _scores(checkpoint: Mapping[str, Any]) -> list[Line]:
    state = _callback_state(checkpoint)
    lines = []
    score = last_score(checkpoint)
    if score is not None:
        lines.append(("score", f"{score[0]} {score[1]:.4f} at step {state.get('last_validated_step')}"))
    best = parse_ranking(state.get("ranking"))
    if best:
        lines.append(("best of the run", f"{best[0][0]} ({best[0][1]:.4f} at step {best[0][2]})"))
    return lines


def _callback_state(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    callbacks = checkpoint.get("callbacks")
    state = callbacks.get(CALLBACK_KEY) if isinstance(callbacks, Mapping) else None
    return state if isinstance(state, Mapping) else {}


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_plain(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(_plain(item) for item in value) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
