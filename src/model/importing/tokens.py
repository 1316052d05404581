"""Which task and segment length a published checkpoint was trained with, so that its tokens can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...config import get_task, list_tasks
from ...tokenizer import NoteTokenizer
from ..encoder.perceiver_tf import SPARE_FRAMES
from .computed import SPARE_POSITIONS, prefix_length
from .foreign_file import ForeignCheckpoint

_USUAL_SEGMENTS = tuple(32767 * times for times in range(1, 9))
_TABLES = ("encoder.pos_emb._pos_emb_temporal", "encoder.pos_emb._pos_emb")


def token_leaves(
    foreign: ForeignCheckpoint,
    leaves: Mapping[str, Any],
    row: Mapping[str, Any],
    task: str | None = None,
    segment_samples: int | None = None,
) -> dict[str, Any]:
    """The leaves ``task``, ``event_length`` and ``audio.segment_samples``.

    Args:
        foreign: the file; its settings come before ``row``.
        leaves: what is known of the network.
        row: a published model like it.
        task: name of the task, when the caller knows it.
        segment_samples: length of a segment, when the caller knows it.

    Raises:
        ValueError: when no task and length that may be meant give as many tokens and frames as the file has.
    """
    num_tokens = foreign.weights["embed_tokens.weight"].shape[0]
    num_frames = _num_frames(foreign, leaves)
    tasks = _tasks(foreign, leaves, row, task)
    segments = _segments(foreign, row, segment_samples)
    hop = int(leaves["audio.hop_length"])
    for name in tasks:
        for samples in segments:
            if (
                num_frames not in (None, samples // hop + 1)
                or samples <= leaves.get("audio.n_fft", 2048) // 2
            ):
                continue
            if NoteTokenizer.from_task(name, segment_samples=samples).vocab_size == num_tokens:
                return {
                    "task": name,
                    "audio.segment_samples": samples,
                    "event_length": _event_length(foreign, name),
                }
    frames = "" if num_frames is None else f" and positions for {num_frames} frames"
    raise ValueError(
        f"{foreign.path} has {num_tokens} tokens{frames}, which {' or '.join(tasks[:4])} with segments of "
        f"{' or '.join(map(str, segments[:3]))} samples does not give; name the task (--task) and the "
        "segment (--input-frames) it was trained with"
    )


def _num_frames(foreign: ForeignCheckpoint, leaves: Mapping[str, Any]) -> int | None:
    """Frames of a segment as far as a learned position table of the encoder tells."""
    if leaves.get("model.encoder.position_encoding") not in ("trainable", "td", "tk", "kdt"):
        return None
    table = next(foreign.weights[name] for name in _TABLES if name in foreign.weights)
    return table.shape[0] - SPARE_FRAMES


def _tasks(
    foreign: ForeignCheckpoint, leaves: Mapping[str, Any], row: Mapping[str, Any], task: str | None
) -> list[str]:
    if task is not None:
        get_task(task)
        return [task]
    stored = foreign.setting("task_manager", "task_name")
    multi = leaves["model.decoder_type"] == "multi-t5"
    fitting = [name for name in list_tasks() if bool(get_task(name).channels) == multi]
    if stored in fitting:
        return [stored]
    return sorted(fitting, key=lambda name: name != row.get("task"))


def _segments(foreign: ForeignCheckpoint, row: Mapping[str, Any], samples: int | None) -> list[int]:
    if samples is not None:
        return [samples]
    stored = foreign.setting("audio_cfg", "input_frames")
    if isinstance(stored, int):
        return [stored]
    first = row.get("audio.segment_samples")
    return list(dict.fromkeys([*([first] if first else []), *_USUAL_SEGMENTS]))


def _event_length(foreign: ForeignCheckpoint, task: str) -> int:
    """Longest sequence: what the file says, else the rows of the decoder's position table."""
    stored = foreign.setting("model_cfg", "event_length")
    if isinstance(stored, int):
        return stored
    table = foreign.weights.get("decoder.decoder.additive_pe.weight")
    if table is None:
        return 1024
    return int(table.shape[0]) - SPARE_POSITIONS - prefix_length(task)
