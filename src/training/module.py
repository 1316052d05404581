"""The LightningModule: a training step, its losses and schedule, validation, and what a checkpoint holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.utilities import rank_zero_info
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor
from torch.optim import Optimizer

from ..config import Experiment
from ..data.batch import NOTE_COLUMNS, Batch, ValidationItem
from ..evaluation import score_keys
from ..losses import NoteColumns
from ..model import build_model
from ..optim import build_optimizer, build_scheduler
from ..tokenizer import NoteTokenizer
from .counting import CountingModule
from .faults import StepFault
from .nonfinite import NonFiniteGuard, Verdict
from .objective import Outputs, build_objective
from .plan import RunPlan, plan_run
from .state import checkpoint_extras, settle_loops
from .statistics import running_statistics, share_statistics
from .steps import StepReport, seed_step
from .throughput import Throughput, TrainingClock
from .validation import Validator, Vocabulary


class TranscriptionModule(CountingModule):
    """Trains the network of an experiment.

    Args:
        experiment: the run.
        tokenizer: of the run's task and segment length.
        plan: lengths of the run; by default that of a single process.
        set_names: names of the evaluation sets, in the order of ``ValidationItem.set_index``.
        vocabularies: evaluation classes of each set; by default no class is scored apart.
        has_scaler: fp16 with a gradient scaler.
        fault: ``AMT_FAULT``.
        fault_memory: file that remembers that the fault has struck.
        scan_gradients: ``AMT_DEBUG_GRAD_FINITE``.
        resume_file: file to name when training gives up.
        write_output: called with (song id, set name, step, notes) of each validated song; None writes none.
    """

    def __init__(
        self,
        experiment: Experiment,
        tokenizer: NoteTokenizer,
        *,
        plan: RunPlan | None = None,
        set_names: Sequence[str] = ("validation",),
        vocabularies: Sequence[Vocabulary] | None = None,
        has_scaler: bool = False,
        fault: str = "",
        fault_memory: Path | None = None,
        scan_gradients: bool = False,
        resume_file: str = "the last checkpoint",
        write_output: Callable[..., None] | None = None,
    ) -> None:
        super().__init__(plan_run(experiment) if plan is None else plan)
        self.experiment = experiment
        self.tokenizer = tokenizer
        self.has_scaler = has_scaler
        self.fault = StepFault(fault, fault_memory)
        self.model = build_model(
            experiment.model,
            experiment.audio,
            tokenizer.vocab_size,
            tokenizer.num_channels,
            pad_id=tokenizer.pad_id,
            eos_id=tokenizer.eos_id,
            max_length=tokenizer.max_length,
        )
        if experiment.model.shift_embedding_init == "sinusoid":
            self.model.init_shift_embeddings(tokenizer.token_range("shift"), tokenizer.seconds_per_step)
        self.objective = build_objective(experiment, tokenizer)
        trainer = experiment.trainer
        self.guard = NonFiniteGuard(
            self.model,
            shrink_factor=trainer.nan_lr_shrink_factor,
            max_consecutive=trainer.max_consecutive_nonfinite,
            world_size=self.plan.world_size,
            has_scaler=has_scaler,
            scan_gradients=scan_gradients,
            resume_file=resume_file,
        )
        self.clock = TrainingClock()
        self.throughput = Throughput(self.clock)
        names = list(set_names)
        vocabularies = [{} for _ in names] if vocabularies is None else list(vocabularies)
        self.validator = Validator(
            self.model,
            tokenizer,
            dict(zip(names, vocabularies, strict=True)),
            batch_size=experiment.bsz.validation,
            world_size=self.plan.world_size,
            write_output=write_output,
        )
        self.validation_keys = {
            f"validation/macro_{key}" for vocabulary in vocabularies for key in score_keys(vocabulary)
        } | {"val_loss"}
        self.last_score: float | None = None
        """``macro_onset_f`` of the last validation."""
        self.last_validated_step = -1
        self.stop_reason = ""
        """Why training ended early, in words; empty when it did not."""
        self.stopped_by_signal = False
        self._verdict: Verdict | None = None

    @property
    def saving_allowed(self) -> bool:
        """False while the losses are not finite; nothing is saved then."""
        return self.guard.saving_allowed

    # --- a step -------------------------------------------------------------------------------------

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """The optimizer over all parameters that are trained, and its schedule per step."""
        config, schedule = self.experiment.optimizer, self.experiment.lr_schedule
        optimizer = build_optimizer(
            config.name,
            self.model.named_parameters(),
            config.learning_rate,
            config.weight_decay,
            config.betas,
            gradient_scaler=self.has_scaler,
        )
        self.schedule = build_scheduler(
            schedule.name,
            optimizer,
            warmup_steps=schedule.num_warmup_steps,
            final=schedule.final_cosine,
            total_steps=self.plan.max_steps,
            time_budget=self.plan.budget_seconds > 0,
        )
        self._steer_schedule(self.clock.elapsed)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.schedule, "interval": "step"}}

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Training batches go to the device whole; songs to validate stay and go window by window."""
        if not isinstance(batch, Batch):
            return batch
        moved = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(batch).items()
            if isinstance(value, Tensor)
        }
        return replace(batch, **moved)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Open the accumulation window at its first batch; seed the global generators."""
        part = batch_idx % self.experiment.trainer.accumulate_grad_batches
        if part == 0:
            self.guard.start_window()
        seed_step(self.experiment.seed, self.global_rank, self.global_step, part)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The weighted sum of the objective's terms on one batch."""
        outputs = self._forward(batch.audio, batch.labels, batch.notes)
        loss, terms = self.objective(outputs, self.global_step)
        if outputs.frames is not None and "frame" not in self.objective.active(self.global_step):
            loss = loss + 0.0 * outputs.frames.float().sum()  # DDP wants every parameter to take part
        if self.fault.spoils(self.global_step + 1, self.global_rank):
            loss = loss * math.nan
        num_tokens = (batch.labels != self.tokenizer.pad_id).sum()
        self.guard.observe(loss, terms, outputs.logits, num_tokens)
        return loss

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Where Lightning asks for clipping the ranks agree on the step: clip it, or drop it."""
        self._verdict = self.guard.decide(
            self.named_parameters(),
            step=self.global_step + 1,
            clip=self.experiment.trainer.gradient_clip,
            elapsed_seconds=self.clock.elapsed,
            stop=self._wants_stop(),
        )

    def lr_scheduler_step(self, scheduler: Any, metric: Any | None) -> None:
        """Called once the step is complete, before any callback sees its end: count it, set the next rate."""
        verdict = self._verdict
        assert verdict is not None
        rate = self.schedule.get_last_lr()[0]
        self.report = StepReport(self.global_step, verdict.loss, rate, verdict.grad_norm, verdict.dropped)
        self.epoch_loss.add(self.report)
        self._steer_schedule(verdict.elapsed_seconds)
        self.schedule.step()
        self.show_epoch()
        budget, limit = self.plan.budget_seconds, self.plan.max_steps
        if budget and verdict.elapsed_seconds >= budget:
            self.stop_reason = f"the time budget of {budget / 60:g} minutes is used up"
            self.trainer.should_stop = True
        if limit is not None and self.report.step >= limit:
            self.trainer.should_stop = True  # makes Lightning validate the last step, also between two -vit

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Log a finished step."""
        verdict, report = self._verdict, self.report
        if verdict is None or report is None:  # inside an accumulation window
            return
        self._verdict = None
        samples = self.plan.samples_per_step
        self.throughput.add(samples, verdict.num_tokens * self.plan.world_size)
        if report.step % self.experiment.trainer.log_every_n_steps == 0:  # self.log costs more than it seems
            values = {
                "train_loss": report.loss,
                "lr": report.rate,
                **verdict.terms,
                "grad_norm": report.grad_norm,
                "num_dropped_steps": float(self.guard.num_dropped),
                "nan_lr_scale": self.guard.lr_scale,
                **self.throughput.read(),
            }
            self.log_numbers(values, on_step=True)
        self.log_epoch_mean(report.step)
        self.fault.strike(report.step, self.global_rank, self.trainer.strategy.barrier)
        if verdict.stop:
            self._stop()

    def _forward(self, audio: Tensor, labels: Tensor, notes: Tensor) -> Outputs:
        encoded = self.model.encode(audio)
        logits = self.model.decode_logits(encoded, labels)
        columns = NoteColumns(**dict(zip(NOTE_COLUMNS, notes.unbind(-1), strict=True)))
        return Outputs(logits, labels, self.model.frame_logits(encoded), columns)

    def _steer_schedule(self, elapsed_seconds: float) -> None:
        budget = self.plan.budget_seconds
        self.schedule.time_share = min(1.0, elapsed_seconds / budget) if budget else 0.0
        self.schedule.factor = self.guard.lr_scale

    def _wants_stop(self) -> bool:
        return any(_signal_flag(callback) for callback in self.trainer.checkpoint_callbacks)

    def _stop(self) -> None:
        """All ranks come here at the same step: save and leave without another validation."""
        self.stop_reason = "a signal"
        self.stopped_by_signal = True
        for callback in self.trainer.checkpoint_callbacks:
            save_and_stop = getattr(callback, "save_and_stop", None)
            if save_and_stop is not None:
                save_and_stop(self.trainer)
        self.trainer.limit_val_batches = 0
        self.trainer.should_stop = True

    # --- validation ---------------------------------------------------------------------------------

    def on_validation_start(self) -> None:
        """The clock of training stands still; every rank decodes with the statistics of rank 0."""
        self.clock.pause()
        share_statistics(running_statistics(self.model), self.plan.world_size)
        self.validator.start(self.trainer.precision_plugin.forward_context, self.device)

    def validation_step(self, item: ValidationItem, batch_idx: int) -> None:
        """Queue one song; its windows are decoded together with those of others."""
        self.validator.add(item, self.global_step)

    def on_validation_epoch_end(self) -> None:
        """Decode what is left, add up over ranks, log."""
        values = self.validator.finish(self.global_step)
        self.last_score = values.get("validation/macro_onset_f")
        self.last_validated_step = self.global_step
        self.log_numbers(values, on_step=False)

    def on_validation_end(self) -> None:
        """Training goes on."""
        self.clock.run()

    # --- start and resume ---------------------------------------------------------------------------

    def on_train_start(self) -> None:
        """Take the loops' place from the checkpoint; run a validation that was due and not finished."""
        self.fault.arm()
        self.show_epoch()
        loop = self.trainer.fit_loop.epoch_loop
        loop.restarting = False  # the state was settled at a step's end: nothing is half done
        step = self.global_step
        interval = self.experiment.trainer.val_interval
        due = step > 0 and step % interval == 0 and self.last_validated_step < step
        first = step == 0 and self.experiment.trainer.validate_before_fit
        if (due or first) and self.trainer.enable_validation:
            if due:
                rank_zero_info(f"the validation that was due at step {step} runs first")
            self.trainer.validating = True
            loop.val_loop.run()
            self.trainer.training = True
        self.clock.run()

    def on_train_end(self) -> None:
        """Stop the clock; wait for files of validation that are still being written."""
        self.clock.pause()
        self.validator.close()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what a file needs to stand alone, in plain types."""
        checkpoint["epoch"] = self.epoch_number
        checkpoint |= checkpoint_extras(self.experiment, self.tokenizer.task)
        checkpoint["amt_state"] = {
            "consumed_samples": self.consumed_samples,
            "last_validated_step": self.last_validated_step,
            "nan_lr_scale": self.guard.lr_scale,
            "elapsed_seconds": self.clock.elapsed,
            "num_dropped_steps": self.guard.num_dropped,
            "epoch_loss": self.epoch_loss.to_list(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over the place in the run; bring the loops' counters to the end of a step."""
        state: Mapping[str, Any] = checkpoint["amt_state"]
        step = int(checkpoint["global_step"])
        self.continue_from(step, int(state["consumed_samples"]))
        self.guard.last_good_step = step
        self.last_validated_step = int(state["last_validated_step"])
        self.guard.lr_scale = float(state["nan_lr_scale"])
        self.guard.num_dropped = int(state.get("num_dropped_steps", 0))
        self.epoch_loss.load_list(state.get("epoch_loss", (0.0, 0)))
        self.clock.restore(float(state["elapsed_seconds"]))
        if self.guard.lr_scale < 1:
            rank_zero_info(
                f"the learning rate stays multiplied by {self.guard.lr_scale:g} (nan_lr_scale of the "
                f"checkpoint, after {self.guard.num_dropped} dropped steps)"
            )
        settle_loops(checkpoint, self.experiment.trainer.accumulate_grad_batches, fused=not self.has_scaler)


def _signal_flag(callback: Any) -> bool:
    flag = getattr(callback, "signal_flag", None)
    return bool(flag is not None and flag())
