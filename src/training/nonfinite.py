"""Numbers that are not finite: the step they occur in is dropped on every rank, and nothing remembers it.

One reduction per step carries everything the ranks must agree on: the non-finite flag, a stop that a signal
or an error asked for, and the time spent; and the number of tokens, for the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_info, rank_zero_warn
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from ..config.names import counted
from .statistics import running_statistics, share_statistics

MIN_LR_SCALE = 2.0**-10
"""Floor of the factor that repeated non-finite losses put on the learning rate."""
SCALER_PATIENCE = 50
"""Steps in a row that fp16 may skip at the floor of its scale before the user is told."""


class NonFiniteLossError(RuntimeError):
    """The loss was not finite for too many steps in a row; every rank raises it."""

    amt_said = True


@dataclass(frozen=True)
class Verdict:
    """What all ranks decided about one step, and this rank's numbers of it."""

    dropped: bool
    loss: float
    """Mean over the batches of the step; 0 when the step was dropped."""
    grad_norm: float
    """Total norm before clipping; 0 when the step was dropped."""
    terms: dict[str, float] = field(default_factory=dict)
    num_tokens: int = 0
    """Labels that counted, of all ranks."""
    stop: bool = False
    """Some rank asked to stop."""
    elapsed_seconds: float = 0.0
    """The longest training time any rank has measured."""


class NonFiniteGuard:
    """Watches loss and gradients of each step (accumulation window) and drops those that are not finite.

    A dropped step leaves weights, moments, step counts and BatchNorm statistics as they were before the
    window. The learning rate is multiplied by ``shrink_factor`` each time (:attr:`lr_scale`).

    Args:
        model: its BatchNorm statistics are put back when a step is dropped.
        shrink_factor: factor on the learning rate for each dropped step.
        max_consecutive: raise after so many dropped steps in a row.
        world_size: number of ranks; 1 makes no reduction.
        has_scaler: fp16 with a gradient scaler, whose overflows with a finite loss are not counted.
        scan_gradients: name the first parameter with a gradient that is not finite, and raise.
        resume_file: file to name when giving up.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        shrink_factor: float = 0.5,
        max_consecutive: int = 50,
        world_size: int = 1,
        has_scaler: bool = False,
        scan_gradients: bool = False,
        resume_file: str = "the last checkpoint",
    ) -> None:
        self.shrink_factor = shrink_factor
        self.max_consecutive = max_consecutive
        self.world_size = world_size
        self.has_scaler = has_scaler
        self.scan_gradients = scan_gradients
        self.resume_file = resume_file
        self.lr_scale = 1.0
        """``nan_lr_scale``: the factor on the learning rate so far."""
        self.num_dropped = 0
        self.streak = 0
        """Dropped steps in a row until now."""
        self.last_good_step = 0
        self._model = model
        self._buffers: list[Tensor] = []
        self._kept: list[Tensor] = []
        self._bad: Tensor | None = None
        self._bad_logits: Tensor | None = None
        self._num_batches = 0
        self._num_tokens: Tensor | int = 0
        self._sums: dict[str, Tensor] = {}

    @property
    def saving_allowed(self) -> bool:
        """False from the first dropped step of a row until a good one: such a state is not worth a file."""
        return self.streak == 0

    def start_window(self) -> None:
        """Call before the first forward of a step."""
        self._start_sums()
        self._buffers = running_statistics(self._model)
        if len(self._kept) != len(self._buffers):
            self._kept = [buffer.clone() for buffer in self._buffers]
        else:
            for kept, buffer in zip(self._kept, self._buffers, strict=True):
                kept.copy_(buffer)

    def observe(
        self, loss: Tensor, terms: Mapping[str, Tensor], logits: Tensor | None, num_tokens: Tensor
    ) -> None:
        """Take in one batch; nothing waits for the device here.

        Args:
            loss: scalar, attached or not.
            terms: parts of the loss, for the log.
            logits: to tell non-finite logits from an overflow of the loss.
            num_tokens: labels that count.
        """
        loss = loss.detach().double()
        bad = ~torch.isfinite(loss)
        self._bad = bad if self._bad is None else self._bad | bad
        if logits is not None:
            bad_logits = ~torch.isfinite(logits.detach().sum(dtype=torch.float32))
            self._bad_logits = bad_logits if self._bad_logits is None else self._bad_logits | bad_logits
        self._num_batches += 1
        self._num_tokens = self._num_tokens + num_tokens
        for name, value in (("", loss), *terms.items()):
            value = value.detach().double()
            self._sums[name] = self._sums[name] + value if name in self._sums else value

    def decide(
        self,
        named_parameters: Iterable[tuple[str, nn.Parameter]],
        *,
        step: int,
        clip: float = 0.0,
        elapsed_seconds: float = 0.0,
        stop: bool = False,
    ) -> Verdict:
        """Agree on the step, then clip its gradients or drop it.

        Call once a step, after the gradients were reduced over ranks (and unscaled, under fp16) and before
        the optimizer. After a drop no parameter has a gradient, so that the optimizer's step does nothing.

        Args:
            named_parameters: those that may have gradients.
            step: number of this step, from 1.
            clip: largest gradient norm; 0 is off.
            elapsed_seconds: training time of this rank.
            stop: whether this rank wants to stop.

        Raises:
            NonFiniteLossError: after ``max_consecutive`` dropped steps in a row, on every rank.
        """
        assert self._bad is not None, "decide() without an observed batch"
        named = [(name, parameter) for name, parameter in named_parameters if parameter.grad is not None]
        gradients = [parameter.grad for _, parameter in named if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).double()
        local = self._bad.device
        bad_logits = self._bad if self._bad_logits is None else self._bad_logits
        flags = torch.stack(
            [
                (~torch.isfinite(norm)).double().to(local),
                bad_logits.double(),
                torch.tensor(float(stop), dtype=torch.float64, device=local),
                torch.tensor(elapsed_seconds, dtype=torch.float64, device=local),
            ]
        )
        of_ranks = torch.zeros(2, self.world_size, dtype=torch.float64, device=local)
        rank = dist.get_rank() if self.world_size > 1 else 0
        of_ranks[0, rank], of_ranks[1, rank] = self._bad, self._num_tokens
        shared = torch.cat([flags, *of_ranks])
        if self.world_size > 1:  # what ranks have of their own has a place for each: the maximum keeps it
            dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        names = list(self._sums)
        own = torch.stack([norm.to(local), *(self._sums[name].to(local) for name in names)])
        numbers = torch.cat([shared, own]).tolist()
        bad_norm, with_logits, stops, elapsed, *found = numbers[: len(shared)]
        bad_ranks = [rank for rank in range(self.world_size) if found[rank]]
        num_tokens = round(sum(found[self.world_size :]))
        total_norm, *sums = numbers[len(shared) :]
        values = dict(zip(names, (value / self._num_batches for value in sums), strict=True))
        if bad_norm and self.scan_gradients:
            _raise_first_bad(named)
        if bad_ranks or (bad_norm and not self.has_scaler):
            self._drop(step, bad_ranks, bool(with_logits))
            loss, total_norm = 0.0, 0.0
        else:
            if self.streak:
                rank_zero_info(f"step {step}: the loss is finite again after {self.streak} dropped steps")
            self.streak = 0
            self.last_good_step = step
            loss = values[""]
            if clip > 0 and total_norm > clip:
                torch._foreach_mul_(gradients, clip / (total_norm + 1e-6))
        terms = {name: value for name, value in values.items() if name}
        return Verdict(self.streak > 0, loss, total_norm, terms, num_tokens, bool(stops), elapsed)

    def _drop(self, step: int, bad_ranks: list[int], bad_logits: bool) -> None:
        for parameter in self._model.parameters():
            parameter.grad = None
        for buffer, kept in zip(self._buffers, self._kept, strict=True):
            buffer.copy_(kept)
        share_statistics(self._buffers, self.world_size)
        self.num_dropped += 1
        self.streak += 1
        self.lr_scale = max(self.lr_scale * self.shrink_factor, MIN_LR_SCALE)
        if not bad_ranks:
            cause = "the gradient norm is not finite (the loss is)"
        elif bad_logits:
            cause = "the logits are not finite"
        else:
            cause = "the logits are finite but the loss is not (an overflow of the cross-entropy)"
        if self.world_size > 1 and bad_ranks:  # one that is named again and again has a broken GPU
            cause += f", on rank {', '.join(map(str, bad_ranks))}"
        rank_zero_warn(
            f"step {step} is dropped on every rank: {cause}; {self.streak} in a row, {self.num_dropped} in "
            f"all; the learning rate is multiplied by {self.lr_scale:g} from now on"
        )
        if self.streak >= self.max_consecutive:
            raise NonFiniteLossError(
                f"the loss was not finite for {counted(self.streak, 'step')} in a row (the last at step "
                f"{step}; the last good step was {self.last_good_step}). No file was written since; resume "
                f"from {self.resume_file}, with -pr 32 to find the cause or with a lower -lr"
            )

    def _start_sums(self) -> None:
        self._bad = None
        self._bad_logits = None
        self._num_batches = 0
        self._num_tokens = 0
        self._sums = {}


def _raise_first_bad(named: list[tuple[str, nn.Parameter]]) -> None:
    for name, parameter in named:
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            raise NonFiniteLossError(f"AMT_DEBUG_GRAD_FINITE: the gradient of {name} is not finite")


class GradScalerMinScaleGuard(Callback):
    """Keeps the fp16 gradient scale from sinking below a floor, where gradients would vanish for good.

    Every overflow halves the scale and only 2000 clean steps in a row double it. At the floor, many skipped
    steps in a row are reported: fp16 then trains nothing and bf16-mixed is the way out.

    Args:
        min_scale: the floor (``AMT_MIN_GRAD_SCALE``).
    """

    def __init__(self, min_scale: float) -> None:
        self.min_scale = min_scale
        self._at_floor = 0

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Lift the scale when the update of this step took it below the floor."""
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None and (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self.lift(scaler)

    def lift(self, scaler: GradScaler) -> None:
        """Put the scale back to the floor if it is below."""
        if not scaler.is_enabled() or scaler._scale is None:
            return
        if scaler.get_scale() >= self.min_scale:
            self._at_floor = 0
            return
        scaler.update(self.min_scale)
        self._at_floor += 1
        if self._at_floor % SCALER_PATIENCE == 0:
            rank_zero_warn(
                f"fp16 skipped {counted(self._at_floor, 'step')} in a row at its smallest gradient scale "
                f"{self.min_scale:g}: nothing is learned; use -pr bf16-mixed or -pr 32"
            )
