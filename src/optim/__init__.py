"""Optimizers and learning-rate schedules, each chosen by name from one table."""

from .adamw_scale import AdamWScale
from .optimizers import OPTIMIZER_TABLE, build_optimizer, is_decayed
from .schedules import SCHEDULE_TABLE, StepSchedule, build_scheduler

__all__ = [
    "OPTIMIZER_TABLE",
    "SCHEDULE_TABLE",
    "AdamWScale",
    "StepSchedule",
    "build_optimizer",
    "build_scheduler",
    "is_decayed",
]
