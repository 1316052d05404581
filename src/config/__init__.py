"""Records, tables and variables that define a run. Standard library only."""

from .audio import AudioConfig, max_shift_steps
from .data import Augmentation, BatchSizes, DataConfig, DataIO
from .experiment import Experiment
from .inference import InferenceConfig
from .model import (
    ConformerConfig,
    ModelConfig,
    PreEncoderConfig,
    T5DecoderConfig,
    T5EncoderConfig,
)
from .names import nearest, unknown_name
from .objective import ObjectiveConfig
from .perceiver import PerceiverTFConfig
from .presets import MultiPreset, SinglePreset, add_preset, get_preset, list_presets
from .tasks import SubTask, Task, add_task, get_task, list_tasks
from .training import (
    CheckpointConfig,
    LRSchedule,
    OptimizerConfig,
    TrainerConfig,
    WandbConfig,
)
from .vocabularies import get_drum_vocab, get_program_vocab

__all__ = [
    "AudioConfig",
    "Augmentation",
    "BatchSizes",
    "CheckpointConfig",
    "ConformerConfig",
    "DataConfig",
    "DataIO",
    "Experiment",
    "InferenceConfig",
    "LRSchedule",
    "ModelConfig",
    "MultiPreset",
    "ObjectiveConfig",
    "OptimizerConfig",
    "PerceiverTFConfig",
    "PreEncoderConfig",
    "SinglePreset",
    "SubTask",
    "T5DecoderConfig",
    "T5EncoderConfig",
    "Task",
    "TrainerConfig",
    "WandbConfig",
    "add_preset",
    "add_task",
    "get_drum_vocab",
    "get_preset",
    "get_program_vocab",
    "get_task",
    "list_presets",
    "list_tasks",
    "max_shift_steps",
    "nearest",
    "unknown_name",
]
