"""How much memory a run needs, said before it starts, and what to lower when there is not enough."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback

from ..config import Experiment
from ..config.names import counted
from ..model import Transcriber
from .activations import count_activations
from .kept_bytes import FLOAT, Format
from .trainer import Hardware

MOMENTS = {"AdamWScale": 2, "AdamW": 2, "Adafactor": 0, "DAdaptAdam": 3, "CPUAdam": 2, "Muon": 1}
"""Numbers that each optimizer keeps per trained weight; Adafactor's are sums over rows and columns, and Muon
keeps a second one for what is no inner matrix."""
GIB = 2**30
LARGE_SHARE = 0.5
"""Of a machine's memory: a step that takes more of it on a CPU is taken for one that was meant for a GPU."""
_TEXTS = ("out of memory", "can't allocate memory", "ALLOC_FAILED")


class OutOfMemory(RuntimeError):
    """There was not enough memory for a step or a validation; says what to lower."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes in one process at the moment when a step's forward pass ends."""

    weights: float
    """Weights and buffers in float32, and in mixed precision the copies that matrices use."""
    gradients: float
    """Also the buckets that data parallel training reduces."""
    optimizer: float
    """Moments, and the moving average of ``--ema``."""
    activations: float
    """Of all segments of a batch, see :mod:`.activations`."""

    @property
    def total(self) -> float:
        """All together."""
        return self.weights + self.gradients + self.optimizer + self.activations


def estimate_memory(
    model: Transcriber,
    experiment: Experiment,
    num_tokens: int,
    *,
    mixed: bool = False,
    on_cpu: bool = False,
    world_size: int = 1,
) -> MemoryEstimate:
    """What a training step of ``experiment`` needs in each process.

    What is not in it: CUDA itself (some hundred MiB), workspaces of its libraries, what its allocator holds
    back, the batch, and on a CPU the program.

    Args:
        model: of the experiment.
        experiment: the run; batch size, optimizer and checkpointing are read.
        num_tokens: length of the labels; the longest that may come is that of ``-el``.
        mixed: bf16-mixed or 16-mixed.
        on_cpu: fused kernels for attention with dropout exist on GPUs only.
        world_size: number of processes.
    """
    config = experiment.optimizer
    trained = sum(item.numel() for item in model.parameters() if item.requires_grad)
    weights = sum(item.numel() * item.element_size() for item in (*model.parameters(), *model.buffers()))
    if mixed:
        weights += 2 * sum(item.numel() for item in model.parameters() if item.ndim >= 2)
    moments = MOMENTS[config.name] if on_cpu or config.name != "CPUAdam" else 0
    optimizer = float(FLOAT * trained * moments)
    if config.ema_decay:
        optimizer += sum(item.numel() * item.element_size() for item in model.state_dict().values())
    count = count_activations(model, experiment, num_tokens, Format(mixed, on_cpu))
    peak = count.peak(experiment.trainer.activation_checkpointing)
    gradients = FLOAT * trained * (2 if world_size > 1 else 1)
    return MemoryEstimate(weights, gradients, optimizer, peak * experiment.bsz.local)


class MemoryAdvisor:
    """Estimates for a run and for its smaller neighbours, in words.

    Args:
        model: of the experiment.
        experiment: the run.
        hardware: where it runs.
        sequence_length: longest label of the task.
    """

    def __init__(
        self, model: Transcriber, experiment: Experiment, hardware: Hardware, sequence_length: int
    ) -> None:
        self._model = model
        self._experiment = experiment
        self._hardware = hardware
        self._length = sequence_length

    def estimate(self, experiment: Experiment | None = None, num_tokens: int | None = None) -> MemoryEstimate:
        """Of the run, or of it with other settings."""
        return estimate_memory(
            self._model,
            self._experiment if experiment is None else experiment,
            self._length if num_tokens is None else num_tokens,
            mixed=self._hardware.precision.endswith("mixed"),
            on_cpu=self._hardware.accelerator == "cpu",
            world_size=self._hardware.world_size,
        )

    def describe(self) -> str:
        """The line a run prints at its start; says what to lower when it cannot fit."""
        estimate = self.estimate()
        line = (
            f"memory: a step holds about {_gib(estimate.total)} {self._setting()}, labels of full length "
            f"({_parts(estimate)}); {self._besides()} on top"
        )
        available = device_bytes(self._hardware)
        if available and estimate.total > available:
            line += f". The step alone is more than the {_gib(available)} {self._place()} has: "
            line += self.remedies()
        elif self._hardware.accelerator == "cpu" and estimate.total > LARGE_SHARE * available > 0:
            line += f". That is most of the {_gib(available)} {self._place()} has, and such a step may take "
            line += "minutes: --recipe quickstart is a model for a CPU"
        return line

    def explain(self, error: BaseException, where: str, validating: bool) -> OutOfMemory:
        """The error to raise from the allocator's.

        Args:
            error: the allocator's.
            where: step and rank, in words.
            validating: it happened while songs were decoded.
        """
        available = device_bytes(self._hardware)
        has = f"; {self._place()} has {_gib(available)}" if available else ""
        place = f"out of memory {where} ({_said(error)})"
        again = "Started again, the run goes on from its last checkpoint"
        if validating:
            return OutOfMemory(
                f"{place}{has}. Lower --val-batch-size (AMT_VAL_BATCH_SIZE), now "
                f"{counted(self._experiment.bsz.validation, 'window')}. {again}"
            )
        estimate = self.estimate()
        return OutOfMemory(
            f"{place}: it needs about {_gib(estimate.total)} {self._setting()} ({_parts(estimate)}){has}. "
            f"To need less: {self.remedies()}. Other programs on the device take their share too. {again}"
        )

    def remedies(self) -> str:
        """What may be lowered, each with the memory it would leave."""
        run = self._experiment
        found = []
        if (divisor := _smaller(run.bsz.local)) is not None:
            local, accumulate = divisor, run.trainer.accumulate_grad_batches * run.bsz.local // divisor
            sub = run.bsz.sub if local % run.bsz.sub == 0 else local
            lower = replace(run, bsz=replace(run.bsz, sub=sub, local=local))
            found.append(
                f"-bsz {sub} {local} -acc {accumulate} for the same global batch ({self._would(lower)})"
            )
        if not run.trainer.activation_checkpointing:
            again = replace(run, trainer=replace(run.trainer, activation_checkpointing=True))
            found.append(f"--activation-checkpointing true ({self._would(again)})")
        shorter = self._length // 2
        if shorter >= 64:
            text = _gib(self.estimate(num_tokens=shorter).total)
            found.append(f"labels of at most {shorter} tokens, -el ({text})")
        return ", ".join(found) or "a smaller model"

    def _would(self, experiment: Experiment) -> str:
        return _gib(self.estimate(experiment).total)

    def _setting(self) -> str:
        sizes = self._experiment.bsz
        return f"per process with -bsz {sizes.sub} {sizes.local} -el {self._experiment.event_length}"

    def _besides(self) -> str:
        on_cpu = self._hardware.accelerator == "cpu"
        return "Python and its libraries come" if on_cpu else "CUDA and its libraries come"

    def _place(self) -> str:
        return "this machine" if self._hardware.accelerator == "cpu" else "the GPU"


def device_bytes(hardware: Hardware) -> int:
    """Memory of this process's GPU; on a CPU this process's share of the machine's. 0 where nobody says."""
    if hardware.accelerator == "cuda":
        return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // hardware.devices
    except (AttributeError, OSError, ValueError):
        return 0


def peak_bytes(device: torch.device) -> int:
    """The most memory there was at a time: allocated tensors on a GPU, on a CPU the whole process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    # Linux passes the peak of the process that started this one on to getrusage.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # no Unix
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocator found no room, on a GPU or for a tensor in the machine's memory."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS)


class MemoryWatch(Callback):
    """Remembers where a run was when it failed, and says what to lower when memory was the reason.

    Args:
        advisor: knows the run.
        rank: of this process.
    """

    def __init__(self, advisor: MemoryAdvisor, rank: int) -> None:
        self._advisor = advisor
        self._rank = rank
        self._where = ""
        self._validating = False

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Called by Lightning before it forgets what it was doing."""
        self._validating = trainer.validating
        step = pl_module.global_step
        what = f"in the validation of step {step}" if self._validating else f"in step {step + 1}"
        self._where = f"{what} on rank {self._rank}"

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Errors of allocators in the block become :class:`OutOfMemory`, with the original as their cause."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise self._advisor.explain(error, self._where, self._validating) from error


def _smaller(local: int) -> int | None:
    """The largest proper divisor; None of 1."""
    return next((divisor for divisor in range(local // 2, 0, -1) if local % divisor == 0), None)


def _said(error: BaseException) -> str:
    """The first sentence of an allocator; the rest explains itself."""
    return (str(error).splitlines() or [type(error).__name__])[0].split(". GPU")[0][:200]


def _parts(estimate: MemoryEstimate) -> str:
    return (
        f"weights {_gib(estimate.weights)}, gradients {_gib(estimate.gradients)}, optimizer "
        f"{_gib(estimate.optimizer)}, activations {_gib(estimate.activations)}"
    )


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / 2**20:.0f} MiB"
