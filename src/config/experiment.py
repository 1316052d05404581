"""The one frozen record of a run, and its JSON form."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .audio import AudioConfig
from .combinations import check_network, check_task
from .data import Augmentation, BatchSizes, DataConfig, DataIO, DynamicWeighting
from .inference import InferenceConfig
from .model import ModelConfig
from .names import unknown_name
from .objective import ObjectiveConfig
from .rl import RLConfig
from .tasks import get_task
from .training import (
    CheckpointConfig,
    LRSchedule,
    OptimizerConfig,
    TrainerConfig,
    WandbConfig,
)

FORMAT = 1
"""Version of the JSON form."""
LARGEST_SEED = 2**32
"""A step's draws come from so many seeds; others would repeat one of these."""


@dataclass(frozen=True)
class Experiment:
    """Everything that defines a run. Sections are written in capitals in its JSON form."""

    exp_id: str = "exp"
    project: str = "ymt3"
    task: str = "mt3_full_plus"
    """Key of the task table (flag ``-tk``)."""
    event_length: int = 1024
    """Longest token sequence of a single-channel task (flag ``-el``)."""
    seed: int = 3407
    init_ckpt: str = ""
    """File a warm start took its weights from."""
    pretrained_t5: str = ""
    """Folder of a T5 v1.1 that the decoder, and the encoder of ``-enc t5``, started from."""
    init_include: tuple[str, ...] = ()
    """Patterns of weight names a warm start takes; empty takes all (flag ``--init-include``)."""
    init_exclude: tuple[str, ...] = ()
    """Patterns of weight names a warm start leaves out (flag ``--init-exclude``)."""
    audio: AudioConfig = field(default_factory=AudioConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    bsz: BatchSizes = field(default_factory=BatchSizes)
    dataio: DataIO = field(default_factory=DataIO)
    augmentation: Augmentation = field(default_factory=Augmentation)
    dynamic_dataset_weighting: DynamicWeighting = field(default_factory=DynamicWeighting)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    rl: RLConfig = field(default_factory=RLConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    lr_schedule: LRSchedule = field(default_factory=LRSchedule)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)

    def __post_init__(self) -> None:
        if self.event_length < 8:
            raise ValueError(f"-el must be at least 8 tokens, not {self.event_length}")
        if not 0 <= self.seed < LARGEST_SEED:
            raise ValueError(f"--seed must lie from 0 to below {LARGEST_SEED}, not {self.seed}")
        if self.init_ckpt and self.pretrained_t5:
            raise ValueError(
                "--init-ckpt brings all weights, --pretrained-t5 those of a T5: give one of them"
            )
        task = get_task(self.task)
        check_task(self.model, task)
        check_network(self.model, self.audio, task.num_channels)
        if self.model.pre_encoder.harmonics and self.audio.codec != "logspec":
            raise ValueError(
                "--harmonics are steps on a log-frequency axis: use -ac logspec, or leave them out"
            )
        if self.inference.pitch_check > 0 and "voice" not in self.model.frame_groups:
            raise ValueError(
                "--pitch-check asks the frame head of the voice: add --frame-head voice, or --pitch-check 0"
            )
        model = self.model
        if self.objective.moe_balance_weight > 0 and (model.encoder_type, model.encoder.ff_type) != (
            "perceiver-tf",
            "moe",
        ):
            raise ValueError(
                "--moe-balance-weight spreads tokens over the experts of a Perceiver-TF: add "
                "-enc perceiver-tf -ff moe, or take 0"
            )
        if max(self.objective.octave_weight, self.objective.chroma_weight) > 0 and task.targets() <= {128}:
            raise ValueError(
                f"--octave-weight and --chroma-weight are about pitches, and -tk {task.name} has only drums: "
                "take 0"
            )
        if self.objective.frame_weight > 0 and not self.model.frame_groups:
            raise ValueError("--frame-weight needs a frame head: add --frame-head voice (or pitched, drums)")

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, numbers and strings; sections in capitals, and the format number."""
        plain: dict[str, Any] = {"format": FORMAT}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                plain[item.name.upper()] = json.loads(json.dumps(dataclasses.asdict(value)))
            else:
                plain[item.name] = list(value) if isinstance(value, tuple) else value
        return plain

    def to_json(self) -> str:
        """The JSON form, stable and readable."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Experiment:
        """The inverse of :meth:`to_dict`; unknown keys are errors that name the near ones."""
        plain = dict(plain)
        version = plain.pop("format", FORMAT)
        if not isinstance(version, int) or version > FORMAT:
            raise ValueError(
                f"this configuration has format {version}; this version reads up to {FORMAT}: update amt"
            )
        lowered = {key.lower() if key.isupper() else key: value for key, value in plain.items()}
        return typing.cast(Experiment, record_from_dict(cls, lowered, "experiment"))

    @classmethod
    def from_json(cls, text: str) -> Experiment:
        """The inverse of :meth:`to_json`."""
        loaded = json.loads(text)
        if not isinstance(loaded, dict):
            raise ValueError("an experiment's JSON must be an object")
        return cls.from_dict(loaded)


def record_from_dict(record: type[Any], plain: dict[str, Any], where: str) -> Any:
    """Build dataclass ``record`` from plain values, nested records and tuples included.

    Raises:
        ValueError: for an unknown key or a value of the wrong kind; the message names ``where``.
    """
    hints = typing.get_type_hints(record)
    known = {item.name for item in dataclasses.fields(record)}
    values: dict[str, Any] = {}
    for key, value in plain.items():
        if key not in known:
            raise unknown_name(f"key in {where}", key, known)
        values[key] = convert(hints[key], value, f"{where}.{key}")
    return record(**values)


def _strict(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > sys.float_info.max:
            raise ValueError(f"{where} is too large: {str(value)[:20]}...")
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{where} must be {hint.__name__}, not {value!r}")
    return value


def convert(hint: Any, value: Any, where: str, scalar: Callable[[Any, Any, str], Any] = _strict) -> Any:
    """A plain value as the type ``hint`` of a record's field.

    Args:
        hint: a record, a tuple, a scalar, or one of these or None.
        value: numbers, strings, lists, dictionaries.
        where: its name in messages.
        scalar: as this function, for the scalars.

    Raises:
        ValueError: for a value of the wrong kind.
    """
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise ValueError(f"{where} must be an object, not {value!r}")
        return record_from_dict(typing.cast("type[Any]", hint), value, where)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(hint)
        if value is None and type(None) in options:
            return None
        return convert(next(item for item in options if item is not type(None)), value, where, scalar)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{where} must be a list, not {value!r}")
        inner = typing.get_args(hint)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(convert(inner[0], item, where, scalar) for item in value)
        if len(inner) != len(value):
            raise ValueError(f"{where} needs {len(inner)} values, not {len(value)}")
        return tuple(convert(kind, item, where, scalar) for kind, item in zip(inner, value, strict=True))
    return scalar(hint, value, where)
