"""Optimizers and learning-rate schedules, each chosen by name from one table."""

from .adafactor import Adafactor
from .adamw_scale import AdamWScale
from .dadapt_adam import DAdaptAdam
from .layer_decay import layer_depths, layer_scales
from .optimizers import OPTIMIZER_TABLE, build_optimizer, is_decayed, paces_itself
from .schedules import SCHEDULE_TABLE, PlateauSchedule, StepSchedule, build_scheduler

__all__ = [
    "OPTIMIZER_TABLE",
    "SCHEDULE_TABLE",
    "Adafactor",
    "AdamWScale",
    "DAdaptAdam",
    "PlateauSchedule",
    "StepSchedule",
    "build_optimizer",
    "build_scheduler",
    "is_decayed",
    "layer_depths",
    "layer_scales",
    "paces_itself",
]
