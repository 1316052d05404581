"""``export.py``: a checkpoint for other programs, as safetensors or as graphs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..config.names import counted
from .command import EXIT_OK, run_command, warn
from .convert import find_source, say
from .parser import Option, UsageError, format_help, parse

FORMATS = ("safetensors", "torch", "onnx")
EXPORT_OPTIONS = (
    Option("--help", "show this text and exit", "-h", "switch", group="options"),
    Option(
        "--format",
        "safetensors: weights and configuration in one file; torch: programs of torch.export; onnx: graphs "
        'for onnxruntime and others, which needs pip install "amt[onnx]"',
        choices=FORMATS,
        group="options",
    ),
    Option("--overwrite", "replace files that are there", kind="switch", group="options"),
)
_USAGE = "export.py CHECKPOINT OUT [options]"
_INTRO = (
    "Write a checkpoint (exp, exp@last, exp@best, or the path of a file) for other programs. OUT is a file "
    "for safetensors; for torch and onnx it is a folder, which gets the encoder, one step of the decoder "
    "with its caches, and model.json with everything else that a program needs to turn audio into notes."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``export.py`` and return its exit code."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, EXPORT_OPTIONS)
    if command.has("--help"):
        print(format_help(_USAGE, _INTRO, EXPORT_OPTIONS, {"--format": FORMATS[0]}, ("options",)), end="")
        return EXIT_OK
    if len(command.words) != 2:
        raise UsageError(
            f"a checkpoint and where to write are needed, not {len(command.words)} words: {_USAGE}"
        )
    source, target = find_source(command.words[0]), Path(command.words[1])
    kind, overwrite = str(command.get("--format", FORMATS[0])), command.has("--overwrite")
    if kind == "safetensors":
        from ..model.exporting.weights import export_weights

        tensors, values = export_weights(source, target, overwrite=overwrite, say=say)
        print(f"{target} written: {counted(tensors, 'weight')}, {values / 1e6:.2f} million numbers")
        return EXIT_OK
    from ..model.exporting.programs import export_graphs

    done = export_graphs(source, target, kind, overwrite=overwrite, say=say)
    for sentence in done.notes:
        warn(sentence)
    print(f"{target} written: {', '.join(path.name for path in done.files)}")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
