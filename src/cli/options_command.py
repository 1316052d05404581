"""The options of ``train.py`` about the command itself: what it prints, and where values come from."""

from __future__ import annotations

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
        "build everything, take one step, write nothing, and exit",
    ),
    _command(
        "",
        "--override-optim",
        "switch",
        "",
        "on resume, optimizer and schedule follow the command line instead of the checkpoint",
    ),
)
