"""``serve.py``: transcribe in the browser, and over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..config.environment import read_environment
from ..serving.guard import is_loopback
from ..serving.limits import Limits
from .command import EXIT_OK, run_command, warn
from .from_checkpoint import decoding_choices
from .options_command import DECODING_DEFAULTS, DECODING_OPTIONS
from .parser import CommandLine, Option, UsageError, format_help, parse

if TYPE_CHECKING:
    from ..inference import SongTranscriber

_HOST, _PORT = "127.0.0.1", 8000
_LIMITS = Limits()

SERVE_OPTIONS: tuple[Option, ...] = (
    Option("--help", "show this text and exit", "-h", "switch", group="options"),
    Option(
        "--host", "address to listen at; one that other machines reach asks for --public", group="options"
    ),
    Option("--port", "port to listen at; 0 is any that is free", kind="int", group="options"),
    Option(
        "--public",
        "let other machines use the server. It asks for no password and does not encrypt",
        kind="switch",
        group="options",
    ),
    Option(
        "--name",
        "further names by which browsers reach the server; others are refused, which keeps pages of other "
        "sites out",
        count=0,
        metavar="NAME ...",
        group="options",
    ),
    Option("--max-mb", "size of a file, in MiB", kind="int", group="limits"),
    Option("--max-minutes", "length of a song", kind="float", group="limits"),
    Option("--max-waiting", "songs that wait for their turn", kind="int", group="limits"),
    Option(
        "--max-work-minutes", "time that the transcription of a song may take", kind="float", group="limits"
    ),
    Option(
        "--keep",
        "finished songs that are kept; a further one takes the place of the oldest",
        kind="int",
        group="limits",
    ),
    *DECODING_OPTIONS,
)
SERVE_DEFAULTS = {
    "--host": _HOST,
    "--port": str(_PORT),
    "--max-mb": str(_LIMITS.max_mb),
    "--max-minutes": f"{_LIMITS.max_minutes:g}",
    "--max-waiting": str(_LIMITS.max_waiting),
    "--max-work-minutes": f"{_LIMITS.max_work_minutes:g}",
    "--keep": str(_LIMITS.keep),
    **DECODING_DEFAULTS,
}
_USAGE = "serve.py EXP[@CHECKPOINT] [options]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``serve.py`` and return its exit code."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, SERVE_OPTIONS)
    if command.has("--help"):
        print(
            format_help(
                _USAGE,
                "Transcribe in the browser: a page to drop songs on, and a small HTTP API. The model is "
                "that of a checkpoint: exp, exp@last.ckpt, or the path of a file. Songs and results lie in "
                "a temporary folder, which goes when the server ends (Ctrl-C).",
                SERVE_OPTIONS,
                SERVE_DEFAULTS,
                ("options", "limits", "decoding"),
            ),
            end="",
        )
        return EXIT_OK
    if len(command.words) != 1:
        raise UsageError(f"serve.py needs one checkpoint, not {len(command.words)} words: {_USAGE}")
    limits = _limits(command)
    host = str(command.get("--host", _HOST))
    if not is_loopback(host) and not command.has("--public"):
        raise UsageError(
            f"--host {host} lets other machines use this server, which asks for no password; add --public if "
            "that is meant"
        )
    environment = read_environment(os.environ)
    for sentence in environment.warnings:
        warn(sentence)
    from ..inference import find_checkpoint
    from ..serving.server import Server, serve

    # What can be wrong at once is said at once: loading torch and the model takes a while.
    choices = decoding_choices(command)
    path = find_checkpoint(
        command.words[0], log_dir=environment.log_dir, project=str(command.get("--project", "")) or None
    )
    names = command.given["--name"].values if command.has("--name") else ()
    server = Server(host, int(command.get("--port", _PORT)), limits, map(str, names))
    if not is_loopback(host):
        warn(f"whoever reaches {host} can use this server: it asks for no password and does not encrypt")
    print(f"listening at {server.url} and loading {path}", flush=True)

    def load() -> SongTranscriber:
        from ..inference import load_transcriber
        from ..inference.predict import describe

        transcriber = load_transcriber(path, choices, device=str(command.get("--device", "auto")))
        print(describe(transcriber), flush=True)
        return transcriber

    def ready() -> None:
        print(f"open {server.url} in a browser; Ctrl-C ends it", flush=True)

    return serve(server, load, ready)


def _limits(command: CommandLine) -> Limits:
    """What the options say about limits."""
    return Limits(
        max_mb=int(command.get("--max-mb", _LIMITS.max_mb)),
        max_minutes=float(command.get("--max-minutes", _LIMITS.max_minutes)),
        max_waiting=int(command.get("--max-waiting", _LIMITS.max_waiting)),
        max_work_minutes=float(command.get("--max-work-minutes", _LIMITS.max_work_minutes)),
        keep=int(command.get("--keep", _LIMITS.keep)),
    )


if __name__ == "__main__":
    sys.exit(main())
