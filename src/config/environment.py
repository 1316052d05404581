"""Every ``AMT_`` variable: read here and nowhere else.

An empty string means unset. A bad value is an error that names the variable. Relative folders given in
a variable are relative to the working folder; the default ones belong to the checkout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .data import WEIGHT_METRICS
from .names import named_path, nearest
from .values import Scalar, read_value


@dataclass(frozen=True)
class Variable:
    """One variable: what it is called, what it holds and which leaves of the experiment it sets."""

    name: str
    kind: str
    help: str
    targets: tuple[str, ...] = ()
    """Dotted leaves of ``Experiment``; empty for switches of the command itself."""
    default: str = ""
    """Shown in the tables; without it the record's value at the first target is."""


_SEEN_FROM = "; the default is seen from src/ of the checkout, without a checkout it is in the working folder"

VARIABLES: tuple[Variable, ...] = (
    Variable("AMT_DATA_HOME", "text", f"folder of the prepared data sets{_SEEN_FROM}", default="../data"),
    Variable("AMT_LOG_DIR", "text", f"folder of the runs{_SEEN_FROM}", default="../logs"),
    Variable(
        "AMT_FORCE_SCRATCH",
        "bool",
        "ignore an existing last.ckpt and start anew; old files are moved aside, never deleted",
        default="0",
    ),
    Variable(
        "AMT_ALLOW_REWIND",
        "bool",
        "allow exp@older.ckpt although a newer last.ckpt descends from it",
        default="0",
    ),
    Variable(
        "AMT_VAL_BATCH_SIZE",
        "int",
        "windows decoded together in validation and test",
        ("bsz.validation", "bsz.test"),
    ),
    Variable(
        "AMT_EXCLUDE_PRESETS", "text", "presets to leave out, parted by commas, with their weights and scores"
    ),
    Variable("AMT_NUM_WORKERS", "int", "loader processes per GPU; 0 loads in place", ("dataio.num_workers",)),
    Variable("AMT_PREFETCH_FACTOR", "int", "batches each worker prepares", ("dataio.prefetch_factor",)),
    Variable("AMT_PERSISTENT_WORKERS", "bool", "keep workers between epochs", ("dataio.persistent_workers",)),
    Variable(
        "AMT_DYNAMIC_DATASET_WEIGHTING",
        "bool",
        "draw data sets that validate badly more often; for long runs on several presets",
        ("dynamic_dataset_weighting.enabled",),
    ),
    Variable(
        "AMT_DYNAMIC_DATASET_WEIGHTING_METRIC",
        "text",
        f"the score it goes by: {', '.join(WEIGHT_METRICS)}",
        ("dynamic_dataset_weighting.metric",),
    ),
    Variable(
        "AMT_DYNAMIC_DATASET_WEIGHTING_EMA",
        "float",
        "share of the averaged score that a validation keeps",
        ("dynamic_dataset_weighting.ema",),
    ),
    Variable(
        "AMT_DYNAMIC_DATASET_WEIGHTING_MOMENTUM",
        "float",
        "share of its factor that a data set keeps at a validation",
        ("dynamic_dataset_weighting.momentum",),
    ),
    Variable(
        "AMT_DYNAMIC_DATASET_WEIGHTING_MIN",
        "float",
        "least factor on a data set's weight",
        ("dynamic_dataset_weighting.min_factor",),
    ),
    Variable(
        "AMT_DYNAMIC_DATASET_WEIGHTING_MAX",
        "float",
        "greatest factor on a data set's weight",
        ("dynamic_dataset_weighting.max_factor",),
    ),
    Variable(
        "AMT_WARMUP_STEPS",
        "int",
        "warm-up steps of the learning rate, none by default with other schedules; 0 with -s cosine is plain "
        "cosine annealing",
        ("lr_schedule.warmup_steps",),
        default="500 with -s cosine",
    ),
    Variable(
        "AMT_MAX_CONSECUTIVE_NONFINITE_TRAIN_LOSS",
        "int",
        "stop after so many non-finite losses in a row",
        ("trainer.max_consecutive_nonfinite",),
    ),
    Variable(
        "AMT_NAN_LR_SHRINK_FACTOR",
        "float",
        "learning-rate factor for each non-finite loss",
        ("trainer.nan_lr_shrink_factor",),
    ),
    Variable("AMT_MIN_GRAD_SCALE", "float", "floor of the fp16 gradient scaler", ("trainer.min_grad_scale",)),
    Variable(
        "AMT_DEBUG_GRAD_FINITE",
        "bool",
        "look through the gradients after each backward pass and name the first that is not finite",
        default="0",
    ),
    Variable("AMT_DETECT_ANOMALY", "bool", "autograd's anomaly detection (slow)", default="0"),
    Variable(
        "AMT_DDP_FIND_UNUSED_PARAMETERS",
        "bool",
        "DDP looks for parameters without gradient",
        ("trainer.find_unused_parameters",),
    ),
    Variable(
        "AMT_VALIDATE_BEFORE_FIT",
        "bool",
        "one whole validation first; a run that is resumed begins with none",
        ("trainer.validate_before_fit",),
    ),
    Variable(
        "AMT_VAL_START_TRAIN_LOSS_THRESHOLD", "float", "no validation until the training loss is below this"
    ),
    Variable("AMT_ENABLE_LR_MONITOR", "bool", "log the learning rate of every parameter group", default="0"),
    Variable("AMT_CHECKPOINT_FILENAME", "text", "name template of the best files", ("checkpoint.filename",)),
    Variable(
        "AMT_SAVE_BEFORE_VAL",
        "bool",
        "save preval-step=N.ckpt before each validation",
        ("checkpoint.save_before_val",),
    ),
    Variable(
        "AMT_SAVE_EVERY_N_TRAIN_STEPS",
        "int",
        "save step=N.ckpt every N steps; 0 is off",
        ("checkpoint.save_every_n_train_steps",),
    ),
    Variable(
        "AMT_RESET_TOPK_ON_RESUME",
        "bool",
        "start the ranking of the best files anew on resume",
        ("checkpoint.reset_topk_on_resume",),
    ),
    Variable(
        "AMT_WANDB_MINIMAL", "bool", "no system metrics, meta data or console capture", ("wandb.minimal",)
    ),
    Variable(
        "AMT_FAULTHANDLER_LOG_DIR",
        "text",
        "folder where each rank writes faulthandler_rank<R>_pid<P>.log: the stacks of its threads when it "
        "crashes or gets SIGUSR2",
    ),
    Variable(
        "AMT_FAULT",
        "text",
        "for drills: nan@STEP:RANK whenever that step is taken, kill@STEP once in a run's folder, "
        "kill@save or full-disk@save at every save",
    ),
)

_FAULTS = re.compile(r"nan@\d+:\d+|kill@(\d+|save)|full-disk@save")

EXAMPLES = {
    "AMT_VAL_BATCH_SIZE": "24",
    "AMT_SAVE_EVERY_N_TRAIN_STEPS": "2000",
    "AMT_VAL_START_TRAIN_LOSS_THRESHOLD": "2.5",
}
"""Values for the documentation."""

SCRIPT_VARIABLES: tuple[str, ...] = (
    "AMT_EXP_ID",
    "AMT_TASK",
    "AMT_DATA_PRESET",
    "AMT_PRECISION",
    "AMT_OPTIMIZER",
    "AMT_SCHEDULER",
    "AMT_STRATEGY",
    "AMT_BSZ_SUB",
    "AMT_BSZ_LOCAL",
    "AMT_LR",
    "AMT_SYNC_BN",
    "AMT_INPUT_FRAMES",
    "AMT_EVENT_LENGTH",
    "AMT_VAL_INTERVAL",
    "AMT_MAX_STEPS",
    "AMT_RANDOM_AMP_MIN",
    "AMT_RANDOM_AMP_MAX",
    "AMT_IAUG_PROB",
    "AMT_XAUG_MAX_K",
    "AMT_PS_MIN",
    "AMT_PS_MAX",
    "AMT_INIT_CKPT",
    "AMT_WANDB_MODE",
    "AMT_RL_WEIGHT",
    "AMT_RL_REWARD",
    "AMT_RL_BASELINE",
    "AMT_RL_SAMPLES",
    "AMT_PYTHON",
    "AMT_DRY_RUN",
)
"""Variables the training scripts turn into flags; Python knows them and leaves them alone."""


@dataclass(frozen=True)
class Environment:
    """What the variables say."""

    data_home: Path
    log_dir: Path
    force_scratch: bool = False
    allow_rewind: bool = False
    restart_count: int = 0
    """How often a launcher (SLURM, torchrun) has restarted this job."""
    excluded_presets: tuple[str, ...] = ()
    val_start_loss: float | None = None
    scan_gradients: bool = False
    detect_anomaly: bool = False
    lr_monitor: bool = False
    fault: str = ""
    stack_log_dir: Path | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    """Leaves of the experiment that variables set."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The variable that set each of them."""
    warnings: tuple[str, ...] = ()
    """One sentence for each ``AMT_`` name that means nothing here."""


def default_root() -> Path:
    """The folder that holds ``data`` and ``logs``: the checkout, or the working folder of a wheel."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    if (checkout / "pyproject.toml").is_file():
        return checkout
    return Path.cwd()


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Read every variable of :data:`VARIABLES` from ``environ`` (usually ``os.environ``).

    Raises:
        ValueError: for a value that does not fit; the message names the variable.
    """
    values: dict[str, Scalar] = {}
    settings: dict[str, Scalar] = {}
    origins: dict[str, str] = {}
    for variable in VARIABLES:
        text = environ.get(variable.name, "")
        if text == "":
            continue
        try:
            value = read_value(variable.kind, text)
        except ValueError as error:
            raise ValueError(f"{variable.name} {error}") from None
        if variable.targets:
            for target in variable.targets:
                settings[target] = value
                origins[target] = variable.name
        else:
            values[variable.name] = value
    root = default_root()
    excluded = str(values.get("AMT_EXCLUDE_PRESETS", "")).split(",")
    threshold = values.get("AMT_VAL_START_TRAIN_LOSS_THRESHOLD")
    return Environment(
        data_home=_folder(values.get("AMT_DATA_HOME")) or root / "data",
        log_dir=_folder(values.get("AMT_LOG_DIR")) or root / "logs",
        force_scratch=bool(values.get("AMT_FORCE_SCRATCH", False)),
        allow_rewind=bool(values.get("AMT_ALLOW_REWIND", False)),
        excluded_presets=tuple(name.strip() for name in excluded if name.strip()),
        val_start_loss=None if threshold is None else float(threshold),
        scan_gradients=bool(values.get("AMT_DEBUG_GRAD_FINITE", False)),
        detect_anomaly=bool(values.get("AMT_DETECT_ANOMALY", False)),
        lr_monitor=bool(values.get("AMT_ENABLE_LR_MONITOR", False)),
        fault=_fault(str(values.get("AMT_FAULT", ""))),
        stack_log_dir=_folder(values.get("AMT_FAULTHANDLER_LOG_DIR")),
        restart_count=_restart_count(environ),
        settings=settings,
        origins=origins,
        warnings=_unknown(environ),
    )


def _fault(text: str) -> str:
    if text and not _FAULTS.fullmatch(text):
        raise ValueError(
            f"AMT_FAULT {text!r} is none of nan@STEP:RANK, kill@STEP, kill@save and full-disk@save, for "
            "example nan@3:0"
        )
    return text


def _restart_count(environ: Mapping[str, str]) -> int:
    counts = [environ.get(name, "") for name in ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")]
    return max((int(count) for count in counts if count.isdecimal()), default=0)


def _folder(value: Scalar | None) -> Path | None:
    return None if value is None else named_path(str(value)).absolute()


def _unknown(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = {variable.name for variable in VARIABLES} | set(SCRIPT_VARIABLES)
    sentences = []
    for name in sorted(environ):
        if name.startswith("AMT_") and name not in known:
            close = nearest(name, known, count=1)
            hint = f"; the nearest is {close[0]}" if close else ""
            sentences.append(f"{name} is no variable of this version and has no effect{hint}")
    return tuple(sentences)
