"""The options of ``train.py``: one declaration each, in files by subject."""

from __future__ import annotations

from .options_command import COMMAND_OPTIONS
from .options_model import MODEL_OPTIONS
from .options_objective import OBJECTIVE_OPTIONS
from .options_rl import RL_OPTIONS
from .options_run import RUN_OPTIONS, TRAINING_OPTIONS
from .parser import Option

OPTIONS: tuple[Option, ...] = (
    *COMMAND_OPTIONS,
    *RUN_OPTIONS,
    *MODEL_OPTIONS,
    *OBJECTIVE_OPTIONS,
    *RL_OPTIONS,
    *TRAINING_OPTIONS,
)
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(option.group for option in OPTIONS))
