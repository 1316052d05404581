"""The options about the commands themselves: what ``train.py`` prints and where its values come from, and
how the commands that use a checkpoint decode."""

from __future__ import annotations

from ..config.inference import DECODE_PRECISIONS
from ..config.published_models import PUBLISHED_MODELS
from ..config.recipes import RECIPES
from .parser import Option, Section

_command = Section("command", "")

COMMAND_OPTIONS: tuple[Option, ...] = (
    _command("-h", "--help", "switch", "", "show this text and exit"),
    _command("", "--help-env", "switch", "", "list the environment variables and exit"),
    _command(
        "",
        "--print-identity",
        "switch",
        "",
        "say whether the run would start from scratch, resume or warm-start, and exit",
    ),
    _command(
        "", "--print-config", "switch", "", "print every value of the run and where it comes from, and exit"
    ),
    _command(
        "",
        "--recipe",
        "text",
        "",
        "named bundle of defaults under the flags and variables",
        choices=tuple(RECIPES),
    ),
    _command(
        "",
        "--model",
        "text",
        "",
        "published configuration of audio, model and task, under the flags and variables",
        choices=tuple(PUBLISHED_MODELS),
    ),
    _command(
        "",
        "--config",
        "text",
        "",
        "YAML file of settings under the flags and variables, or config.json of a run; see docs/training.md",
        metavar="FILE",
        repeats=True,
    ),
    _command(
        "",
        "--set",
        "text",
        "",
        "set any value of --print-config by its name, such as trainer.log_every_n_steps=10",
        count=0,
        metavar="KEY=VALUE ...",
        repeats=True,
    ),
    _command(
        "",
        "--dry-run",
        "switch",
        "",
        "try the run: build everything with the real data, take one step, write nothing, and exit (to see "
        "the command of a training script, AMT_DRY_RUN=1)",
    ),
    _command(
        "",
        "--override-optim",
        "switch",
        "",
        "on resume, optimizer and schedule follow the command line instead of the checkpoint",
    ),
)

_decoding = Section("decoding", "")

DECODING_OPTIONS: tuple[Option, ...] = (
    _decoding("-p", "--project", "text", "", "project of exp@checkpoint; without it all are searched"),
    _decoding("", "--device", "text", "", "where to compute: auto, cpu, cuda or cuda:N"),
    _decoding(
        "", "--batch-size", "int", "", "windows decoded together; the checkpoint's test size if not given"
    ),
    _decoding(
        "",
        "--overlap",
        "float",
        "",
        "share of a window that the next one hears again (0 to 0.9); the checkpoint's if not given",
    ),
    _decoding(
        "",
        "--subtask",
        "text",
        "",
        "what to transcribe when the task has sub-tasks (singing_v1: default, singing-only; singing_drum_v1: "
        "also drum-only); the first if not given; none writes no task tokens, for models trained without",
    ),
    _decoding(
        "",
        "--constrain",
        "switch",
        "",
        "write only token sequences that are well formed: nothing within a window has to be dropped",
    ),
    _decoding(
        "",
        "--instruments",
        "text",
        "",
        "write only these: names of the task's classes (Piano, Bass, ...), Drums, or program numbers 0 to "
        "127; implies --constrain",
        count=0,
        metavar="NAME ...",
    ),
    _decoding(
        "",
        "--start-from-ties",
        "switch",
        "",
        "a note said to sound on from before its window, but missing there, starts at the window; else it is "
        "left out",
    ),
    _decoding(
        "",
        "--min-note-ms",
        "float",
        "",
        "leave out pitched notes shorter than this many milliseconds; drums have no length and stay",
    ),
    _decoding(
        "",
        "--decode-precision",
        "text",
        "",
        "numbers of the decoder's matrices; auto is bf16 on a GPU and 32 on a CPU, int8 is for CPUs",
        choices=DECODE_PRECISIONS,
        metavar="NAME",
    ),
)
"""How ``predict.py``, ``predict_batch.py`` and ``test.py`` use a checkpoint."""
DECODING_DEFAULTS = {"--device": "auto", "--min-note-ms": "0", "--decode-precision": "auto"}
