"""A checkpoint as graphs for other programs: encoder, decoder step, and a JSON file that explains them."""

from __future__ import annotations

import importlib.util
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from ...config import Experiment, unknown_name
from ...config.audio import SHIFT_STEPS_PER_SECOND
from ...config.vocabularies import class_names
from ...tokenizer import NoteTokenizer
from ..build import build_from
from ..checkpoint_content import Say, description, silent
from ..checkpoint_file import experiment_of, load_weights, model_weights, read_checkpoint
from ..checkpoint_write import replaced_file, write_text
from ..transcriber import Transcriber
from .graphs import DecoderStepGraph, EncoderGraph

FORMATS = {"torch": ".pt2", "onnx": ".onnx"}
"""Kinds of graphs and the ending of their files."""
SETTINGS_NAME = "model.json"
SETTINGS_VERSION = 1
ENCODER_NAMES = (("audio",), ("memory", "cross_cache"))
STEP_NAMES = (("ids", "own_cache", "cross_cache"), ("logits", "grown_cache"))
_TOKEN_KINDS = ("shift", "pitch", "velocity", "tie", "program", "drum")
_EXAMPLE_BATCH = 2
_EXAMPLE_AGE = 3
"""Sizes of the example inputs; neither 0 nor 1, which tracing would take for fixed."""


@dataclass(frozen=True)
class ExportedGraphs:
    """What was written."""

    files: tuple[Path, ...]
    """Encoder, decoder step and settings."""
    notes: tuple[str, ...]
    """What the graphs leave out."""


def export_graphs(
    src: str | Path,
    folder: str | Path,
    kind: str = "torch",
    *,
    overwrite: bool = False,
    say: Say | None = None,
) -> ExportedGraphs:
    """Write the network of a checkpoint as graphs.

    Args:
        src: a checkpoint of ours.
        folder: gets ``encoder`` and ``decoder_step`` with the ending of ``kind``, and ``model.json``.
        kind: ``torch`` (programs of ``torch.export``) or ``onnx``, which needs the packages of ``amt[onnx]``.
        overwrite: replace files that are there.
        say: told what is going on.

    Raises:
        ValueError: a broken file, an unknown kind, a package that is missing, or files that are there.
        OSError: when the file system refuses.
    """
    src, folder, say = Path(src), Path(folder), say or silent
    if kind not in FORMATS:
        raise unknown_name("kind of graph", kind, FORMATS)
    if kind == "onnx":
        _check_onnx()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; graphs need a folder")
    names = [name + FORMATS[kind] for name in ("encoder", "decoder_step")]
    files = [folder / name for name in (*names, SETTINGS_NAME)]
    there = [path for path in files if path.exists()]
    if there and not overwrite:
        raise ValueError(f"{there[0]} is there already; --overwrite replaces it")
    say(f"reading {src}")
    checkpoint = read_checkpoint(src, mmap=True)
    experiment = experiment_of(checkpoint, src)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    model = build_from(experiment, tokenizer)
    load_weights(model, model_weights(checkpoint, src), src)
    write = _write_onnx if kind == "onnx" else _write_torch
    folder.mkdir(parents=True, exist_ok=True)
    encoder, step = trace(model, experiment.audio.segment_samples)
    for path, program, ends in zip(files[:2], (encoder, step), (ENCODER_NAMES, STEP_NAMES), strict=True):
        say(f"writing {path}")
        write(program, path, ends)
    found = settings(experiment, tokenizer, model, str(checkpoint.get("licence", "")))
    found["files"] = {"encoder": names[0], "decoder_step": names[1]}
    write_text(files[2], json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    notes = []
    if experiment.inference.pitch_check:
        notes.append("the pitch check of this model (frame head) is not part of the graphs")
    return ExportedGraphs(tuple(files), tuple(notes))


def trace(model: Transcriber, segment_samples: int) -> tuple[ExportedProgram, ExportedProgram]:
    """Encoder and decoder step as programs, for any number of segments, rows and cached tokens."""
    audio = torch.zeros(_EXAMPLE_BATCH, 1, segment_samples)
    encoder, step = EncoderGraph(model).eval(), DecoderStepGraph(model).eval()
    with torch.no_grad():
        _, cross = encoder(audio)
        layers, _, rows, heads, _, width = cross.shape
        ids = torch.zeros(rows, dtype=torch.int64)
        own = torch.zeros(layers, 2, rows, heads, _EXAMPLE_AGE, width)
        any_size = Dim.DYNAMIC
        return (
            torch.export.export(encoder, (audio,), dynamic_shapes=({0: any_size},)),
            torch.export.export(
                step,
                (ids, own, cross),
                dynamic_shapes=({0: any_size}, {2: any_size, 4: any_size}, {2: any_size}),
            ),
        )


def settings(
    experiment: Experiment, tokenizer: NoteTokenizer, model: Transcriber, licence: str
) -> dict[str, Any]:
    """What a program needs besides the graphs to turn audio into notes, as plain values.

    ``tokens`` gives the first id and the number of ids of each kind; ``prefix`` the tokens with which every
    sequence must begin; ``cache`` the sizes of an empty ``own_cache``: (layers, 2, rows, heads, 0, width).
    """
    ranges = {kind: tokenizer.token_range(kind) for kind in _TOKEN_KINDS}
    attention = experiment.model.decoder
    return {
        "version": SETTINGS_VERSION,
        "sample_rate": experiment.audio.sample_rate,
        "segment_samples": experiment.audio.segment_samples,
        "num_channels": model.num_channels,
        "max_length": model.decoder.max_length,
        "pad_id": model.pad_id,
        "eos_id": model.eos_id,
        "prefix": list(tokenizer.prefix_ids(tokenizer.task.default_subtask) or ()),
        "steps_per_second": SHIFT_STEPS_PER_SECOND,
        "tokens": {kind: [ids.start, len(ids)] for kind, ids in ranges.items()},
        "program_names": {
            str(program): name for program, name in class_names(tokenizer.task.program_vocab).items()
        },
        "cache": {
            "layers": attention.num_layers,
            "heads": attention.num_heads,
            "width": attention.d_kv,
        },
        **description(experiment, licence),
    }


def _check_onnx() -> None:
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f'--format onnx needs {" and ".join(missing)}, which is not installed: pip install "amt[onnx]", '
            "or write programs of torch.export with --format torch"
        )


Writer = Callable[[ExportedProgram, Path, tuple[tuple[str, ...], tuple[str, ...]]], None]


def _write_torch(
    program: ExportedProgram, path: Path, names: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    del names  # a program is called by position
    buffer = io.BytesIO()
    with warnings.catch_warnings():  # it advises on weights that lie on several devices
        warnings.filterwarnings("ignore", "No complete tensor found")
        torch.export.save(program, buffer)
    with replaced_file(path) as file:
        file.write(buffer.getbuffer())


def _write_onnx(program: ExportedProgram, path: Path, names: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    with warnings.catch_warnings(), _quiet("torch.onnx"):  # it misses packages that no network here needs
        warnings.simplefilter("ignore", FutureWarning)
        made = torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(names[0]),
            output_names=list(names[1]),
            optimize=True,
            verbose=False,
        )
    assert made is not None
    with replaced_file(path) as file:
        file.write(made.model_proto.SerializeToString())


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Errors alone from the loggers below ``name``."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def load_program(path: str | Path) -> Callable[..., tuple[Tensor, Tensor]]:
    """A program that :func:`export_graphs` wrote as ``torch``, ready to be called.

    Raises:
        ValueError: the file is missing.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    module: Callable[..., tuple[Tensor, Tensor]] = torch.export.load(path).module()
    return module
