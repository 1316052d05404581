"""How a run is trained: optimizer, schedule, trainer, checkpoints, logging."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import check_least, check_name, check_share

OPTIMIZERS = ("AdamWScale", "AdamW", "Adafactor", "DAdaptAdam", "CPUAdam", "Muon")
SCHEDULERS = ("cosine", "constant", "linear", "plateau", "legacy")
PRECISIONS = ("bf16-mixed", "16-mixed", "32", "auto")
COSINE_WARMUP_STEPS = 500
_BETAS = (0.9, 0.999)
STRATEGIES = ("auto", "ddp")
LR_SCALINGS = ("none", "linear", "sqrt")
REFERENCE_BATCH = 128
"""Segments of the global batch for which the learning rates of the scripts are meant: 8 GPUs x 16."""
WANDB_MODES = ("online", "offline", "disabled")


@dataclass(frozen=True)
class OptimizerConfig:
    """Optimizer (section OPTIMIZER)."""

    name: str = "AdamWScale"
    learning_rate: float | None = None
    """Base rate; None takes the optimizer's own default."""
    scale_lr: str = "none"
    """``linear`` or ``sqrt``: multiply the base rate by the global batch over :data:`REFERENCE_BATCH`, or by
    the root of that (flag ``--scale-lr``)."""
    weight_decay: float = 0.0
    """Decay on matrices; norms, biases and position tables are never decayed."""
    betas: tuple[float, float] = _BETAS
    freeze: tuple[str, ...] = ()
    """Patterns of parameter names that are not trained (flag ``--freeze``)."""
    lr_decay: float = 1.0
    """Factor on the rate for each layer further from the output (flag ``--lr-decay``); 1: one for all."""
    ema_decay: float = 0.0
    """Share of the old average that a step keeps in the moving average of the weights (flag ``--ema``); 0 is
    no average. Validation and checkpoints use the average."""

    def __post_init__(self) -> None:
        if not 0 < self.lr_decay <= 1:
            raise ValueError(f"--lr-decay must lie above 0 and not above 1, not {self.lr_decay}")
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"--ema must lie from 0 (off) to below 1, such as 0.999, not {self.ema_decay}")
        check_name("optimizer", self.name, OPTIMIZERS)
        check_name("scaling of the learning rate", self.scale_lr, LR_SCALINGS)
        if self.name == "Adafactor" and self.betas != _BETAS:
            raise ValueError("-o Adafactor keeps no moments that --betas could change: leave --betas out")
        if self.learning_rate is not None and self.learning_rate <= 0:
            raise ValueError(f"-lr must be positive, not {self.learning_rate}")
        check_least("-wd", self.weight_decay, 0)
        for beta in self.betas:
            check_share("--betas", beta)


@dataclass(frozen=True)
class LRSchedule:
    """Learning-rate schedule (section LR_SCHEDULE)."""

    name: str = "cosine"
    warmup_steps: int | None = None
    """Steps of linear warm-up (``AMT_WARMUP_STEPS``); None is 500 for ``cosine`` and none for the others."""
    final_cosine: float = 1e-5
    """Absolute rate at the end of ``cosine`` and ``linear``."""

    def __post_init__(self) -> None:
        check_name("scheduler", self.name, SCHEDULERS)
        if self.warmup_steps is not None:
            check_least("AMT_WARMUP_STEPS", self.warmup_steps, 0)
        check_least("--final-cosine", self.final_cosine, 0)

    @property
    def num_warmup_steps(self) -> int:
        """Steps of warm-up of this schedule."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return COSINE_WARMUP_STEPS if self.name == "cosine" else 0


@dataclass(frozen=True)
class TrainerConfig:
    """Length, hardware and non-finite handling of a run (section TRAINER). Steps are optimizer updates."""

    max_steps: int = -1
    """Training steps (flag ``-it``); -1 takes ``max_epochs``."""
    max_epochs: int = -1
    """Epochs of ``samples_per_epoch`` segments (flag ``-e``); used when ``max_steps`` is -1."""
    max_minutes: float = 0.0
    """Wall-clock budget of training without validation; the schedule then follows the larger of step
    share and time share. 0: no budget."""
    val_interval: int = 1000
    """Steps between validations (flag ``-vit``)."""
    accumulate_grad_batches: int = 1
    gradient_clip: float = 1.0
    """Largest gradient norm; 0 is off."""
    precision: str = "bf16-mixed"
    strategy: str = "ddp"
    num_nodes: int = 1
    devices: str = "auto"
    """Processes per node: ``auto`` or a number (flag ``-g``)."""
    sync_batchnorm: bool = False
    find_unused_parameters: bool = False
    activation_checkpointing: bool = False
    """Keep only the inputs of layers for the gradient and compute the rest again."""
    compile: bool = False
    """Compile encoder and decoder with ``torch.compile``; needs a C++ compiler on a CPU."""
    validate_before_fit: bool = False
    log_every_n_steps: int = 50
    max_consecutive_nonfinite: int = 50
    nan_lr_shrink_factor: float = 0.5
    min_grad_scale: float = 16.0
    write_model_output: bool = False
    """Write MIDI of validation predictions (flag ``-w``)."""
    num_threads: int = 0
    """CPU threads of torch; 0 leaves torch's own choice."""

    def __post_init__(self) -> None:
        check_name("precision", self.precision, PRECISIONS)
        check_name("strategy", self.strategy, STRATEGIES)
        if self.max_steps < -1 or self.max_steps == 0:
            raise ValueError(f"-it must be a positive number of steps or -1, not {self.max_steps}")
        if self.max_epochs < -1 or self.max_epochs == 0:
            raise ValueError(f"-e must be a positive number of epochs or -1, not {self.max_epochs}")
        check_least("--max-minutes", self.max_minutes, 0)
        check_least("-vit", self.val_interval, 1)
        check_least("-acc", self.accumulate_grad_batches, 1)
        check_least("-gc", self.gradient_clip, 0)
        check_least("-n", self.num_nodes, 1)
        check_least("--threads", self.num_threads, 0)
        check_least("trainer.log_every_n_steps", self.log_every_n_steps, 1)
        check_least("AMT_MAX_CONSECUTIVE_NONFINITE_TRAIN_LOSS", self.max_consecutive_nonfinite, 1)
        if self.min_grad_scale <= 0:
            raise ValueError(f"AMT_MIN_GRAD_SCALE must be above 0, not {self.min_grad_scale:g}")
        if self.devices != "auto" and not (self.devices.isdecimal() and int(self.devices) > 0):
            raise ValueError(f"-g must be 'auto' or a positive number, not {self.devices!r}")
        if not 0 < self.nan_lr_shrink_factor <= 1:
            raise ValueError(
                "AMT_NAN_LR_SHRINK_FACTOR must lie above 0 and not above 1, not "
                f"{self.nan_lr_shrink_factor:g}"
            )


@dataclass(frozen=True)
class CheckpointConfig:
    """What is saved and when (section CHECKPOINT)."""

    monitor: str = "validation/macro_onset_f"
    mode: str = "max"
    save_top_k: int = 7
    filename: str = "{epoch}-{step}-{validation/macro_onset_f:.4f}"
    save_before_val: bool = False
    save_every_n_train_steps: int = 0
    reset_topk_on_resume: bool = False

    def __post_init__(self) -> None:
        check_name("checkpoint mode", self.mode, ("max", "min"))
        check_least("--save-top-k", self.save_top_k, 0)
        check_least("AMT_SAVE_EVERY_N_TRAIN_STEPS", self.save_every_n_train_steps, 0)


@dataclass(frozen=True)
class WandbConfig:
    """Weights & Biases, and TensorBoard (section WANDB); CSV is always written."""

    mode: str = "online"
    minimal: bool = True
    """No system metrics, meta or console capture."""
    tensorboard: bool = False
    """Write TensorBoard event files too (flag ``--tensorboard``)."""
    examples: int = 0
    """Songs of each validation whose piano roll and sound go to W&B (flag ``--wandb-examples``)."""

    def __post_init__(self) -> None:
        check_name("W&B mode", self.mode, WANDB_MODES)
        check_least("--wandb-examples", self.examples, 0)
