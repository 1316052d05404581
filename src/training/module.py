"""The LightningModule: a training step, its losses and schedule, validation, and what a checkpoint holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from ..data.contents import Contents
from ..evaluation import Scoring
from ..losses import NoteColumns, without_octaves
from ..model import Encoded, build_from
from ..optim import build_optimizer, build_scheduler, paces_itself
from ..rl.reinforce import Reinforce, Segments
from ..tokenizer import NoteTokenizer
from .compiling import compiled_passes
from .dynamic_weights import DynamicWeights
from .faults import StepFault
from .learning_rate import scaled_learning_rate
from .memory import GIB, peak_bytes
from .nonfinite import NonFiniteGuard, Verdict
from .objective import Outputs, build_objective, label_mask
from .patterns import freeze
from .plan import RunPlan, plan_run
from .resuming import ResumableModule
from .statistics import running_statistics, share_statistics
from .steps import StepReport, seed_step, step_seed
from .throughput import Throughput, TrainingClock
from .validation import Validator


class TranscriptionModule(ResumableModule):
    """Trains the network of an experiment.

    Args:
        experiment: the run.
        tokenizer: of the run's task and segment length.
        plan: lengths of the run; by default that of a single process.
        set_names: names of the evaluation sets, in the order of ``ValidationItem.set_index``.
        scoring: what is scored of each evaluation set; by default no class is scored apart.
        has_scaler: fp16 with a gradient scaler.
        fault: ``AMT_FAULT``.
        fault_memory: file that remembers that the fault has struck.
        scan_gradients: ``AMT_DEBUG_GRAD_FINITE``.
        resume_file: file to name when training gives up.
        write_output: called with (song id, set name, step, notes) of each validated song; None writes none.
        data_weights: shares of the data sets that follow the validations; None keeps them.
        data_contents: what the data sets hold, for the checkpoints.
    """

    def __init__(
        self,
        experiment: Experiment,
        tokenizer: NoteTokenizer,
        *,
        plan: RunPlan | None = None,
        set_names: Sequence[str] = ("validation",),
        scoring: Sequence[Scoring] | None = None,
        has_scaler: bool = False,
        fault: str = "",
        fault_memory: Path | None = None,
        scan_gradients: bool = False,
        resume_file: str = "the last checkpoint",
        write_output: Callable[..., None] | None = None,
        data_weights: DynamicWeights | None = None,
        data_contents: Contents | None = None,
    ) -> None:
        super().__init__(plan_run(experiment) if plan is None else plan)
        self.experiment = experiment
        self.tokenizer = tokenizer
        self.has_scaler = has_scaler
        self.data_weights = data_weights
        self.data_contents = data_contents or {}
        self.fault = StepFault(fault, fault_memory)
        self.model = build_from(experiment, tokenizer)
        if experiment.model.shift_embedding_init == "sinusoid":
            self.model.init_shift_embeddings(tokenizer.token_range("shift"), tokenizer.seconds_per_step)
        self.model.recompute_activations(experiment.trainer.activation_checkpointing)
        self._compiled = compiled_passes(self.model) if experiment.trainer.compile else None
        self.frozen = freeze(self.model, experiment.optimizer.freeze)
        """What is not trained, in words; empty when everything is."""
        self.objective = build_objective(experiment, tokenizer)
        self.label_mask = label_mask(tokenizer)
        self.reinforce = Reinforce(experiment.rl, self.model, tokenizer, self.plan.world_size)
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
        scorings = [Scoring() for _ in names] if scoring is None else list(scoring)
        self.validator = Validator(
            self.model,
            tokenizer,
            dict(zip(names, scorings, strict=True)),
            batch_size=experiment.bsz.validation,
            world_size=self.plan.world_size,
            write_output=write_output,
        )
        self.rate_remark = ""
        """What ``--scale-lr`` has made of the learning rate, in words."""
        self.validation_keys = self.validator.keys() | {"val_loss"}
        self.last_score: float | None = None
        """``macro_onset_f`` of the last validation."""
        self._verdict: Verdict | None = None
        self._num_truncated: Tensor = torch.zeros((), dtype=torch.int64)
        """Label sequences cut in this process, on the device of the batches."""

    # --- a step -------------------------------------------------------------------------------------

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """The optimizer over all parameters that are trained, and its schedule per step."""
        config, schedule = self.experiment.optimizer, self.experiment.lr_schedule
        rate, self.rate_remark = scaled_learning_rate(config, schedule, self.plan.samples_per_step)
        optimizer = build_optimizer(
            config.name,
            self.model.named_parameters(),
            rate,
            config.weight_decay,
            config.betas,
            lr_decay=config.lr_decay,
            gradient_scaler=self.has_scaler,
            bfloat16=self.experiment.trainer.precision.startswith("bf16"),
        )
        self.schedule = build_scheduler(
            schedule.name,
            optimizer,
            warmup_steps=schedule.num_warmup_steps,
            final=schedule.final_cosine,
            total_steps=self.plan.max_steps,
            time_budget=self.plan.budget_seconds > 0,
            self_paced=paces_itself(config.name, config.learning_rate),
        )
        self._steer_schedule(self.clock.elapsed)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.schedule, "interval": "step"}}

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Training batches go to the device whole, where what is to be shifted in pitch is; songs to validate
        stay and go window by window."""
        if not isinstance(batch, Batch):
            return batch
        moved = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(batch).items()
            if isinstance(value, Tensor)
        }
        return replace(batch, **moved).shifted()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Open the accumulation window at its first batch; seed the global generators."""
        part = batch_idx % self.experiment.trainer.accumulate_grad_batches
        if part == 0:
            self.guard.start_window()
        seed_step(self.experiment.seed, self.global_rank, self.global_step, part)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The weighted sum of the objective's terms on one batch."""
        outputs = self._forward(batch)
        loss, terms = self.objective(outputs, self.global_step)
        if outputs.frames is not None and "frame" not in self.objective.active(self.global_step):
            loss = loss + 0.0 * outputs.frames.float().sum()  # DDP wants every parameter to take part
        if self.reinforce.active(self.global_step):
            part = batch_idx % self.experiment.trainer.accumulate_grad_batches
            term, found = self._reinforce(outputs.encoded, batch, part)
            loss = loss + self.experiment.rl.weight * term
            terms |= found
        if self.fault.spoils(self.global_step + 1, self.global_rank):
            loss = loss * math.nan
        num_tokens = (batch.labels != self.tokenizer.pad_id).sum()
        self.guard.observe(loss, terms, outputs.logits, num_tokens)
        self._num_truncated = self._num_truncated + batch.num_truncated
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
            stop=self.wants_stop(),
        )

    def lr_scheduler_step(self, scheduler: Any, metric: Any | None) -> None:
        """Called once the step is complete, before any callback sees its end: count it, set the next rate."""
        verdict = self._verdict
        assert verdict is not None
        rate = self.schedule.current_rate
        self.reinforce.settle(verdict.dropped)
        self.report = StepReport(self.global_step, verdict.loss, rate, verdict.grad_norm, verdict.dropped)
        self.epoch_loss.add(self.report)
        self.log_epoch_mean(self.report.step)  # before a callback saves this step
        self._steer_schedule(verdict.elapsed_seconds)
        self.schedule.step()
        self.show_epoch()
        budget, limit = self.plan.budget_seconds, self.plan.max_steps
        if budget and verdict.elapsed_seconds >= budget:
            self.stop_reason = f"--max-minutes {budget / 60:g} is used up"
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
        self.throughput.add(samples, verdict.num_tokens)
        if report.step % self.experiment.trainer.log_every_n_steps == 0:  # self.log costs more than it seems
            values = {
                "train_loss": report.loss,
                "lr": report.rate,
                **verdict.terms,
                "grad_norm": report.grad_norm,
                "num_dropped_steps": float(self.guard.num_dropped),
                "nan_lr_scale": self.guard.lr_scale,
                "truncated_labels": float(self._num_truncated),
                "memory_gib": peak_bytes(self.device) / GIB,
                **self.throughput.read(),
            }
            if self.reinforce.active(report.step):
                values |= self.reinforce.read_time_share(self.clock.elapsed)
            self.log_numbers(values, on_step=True)
        self.fault.strike(report.step, self.global_rank, self.trainer.strategy.barrier)
        if verdict.stop:
            self.stop_by_signal()

    def _forward(self, batch: Batch) -> Outputs:
        encode, decode = self._compiled or (self.model.encode, self.model.decode_logits)
        encoded = encode(batch.audio)
        logits = decode(encoded, self._read_labels(batch))
        columns = NoteColumns(**dict(zip(NOTE_COLUMNS, batch.notes.unbind(-1), strict=True)))
        labels = self.label_mask(batch.labels, batch.channel_annotated, batch.channel_complete)
        frames = self.model.frame_logits(encoded)
        return Outputs(
            logits,
            labels,
            frames,
            columns,
            fully_annotated=batch.fully_annotated,
            balance=encoded.balance,
            octave_unknown=batch.octave_unknown,
            encoded=encoded,
        )

    def _read_labels(self, batch: Batch) -> Tensor:
        """Labels as the decoder reads them."""
        if not self.experiment.objective.hide_octaves:
            return batch.labels
        return without_octaves(batch.labels, batch.octave_unknown, self.tokenizer.token_range("pitch"))

    def _reinforce(
        self, encoded: Encoded | None, batch: Batch, part: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        assert encoded is not None
        known = batch.channel_annotated & batch.channel_complete
        segments = Segments(batch.audio, batch.labels, known, batch.octave_unknown)
        seed = step_seed(self.experiment.seed, self.global_rank, self.global_step, part)
        return self.reinforce(encoded, segments, seed)

    def _steer_schedule(self, elapsed_seconds: float) -> None:
        budget = self.plan.budget_seconds
        self.schedule.time_share = min(1.0, elapsed_seconds / budget) if budget else 0.0
        self.schedule.factor = self.guard.lr_scale

    # --- validation ---------------------------------------------------------------------------------

    def on_validation_start(self) -> None:
        """The clock of training stands still; every rank decodes with the statistics of rank 0."""
        self.clock.pause()
        self.validation_cut = False
        share_statistics(running_statistics(self.model), self.plan.world_size)
        self.validator.start(
            self.trainer.precision_plugin.forward_context, self.device, self.some_rank_wants_stop
        )

    def on_validation_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """A signal ends a validation between two songs, and between two batches of windows."""
        if self.some_rank_wants_stop():
            raise StopIteration  # Lightning's loop over the songs takes it for their end

    def validation_step(self, item: ValidationItem, batch_idx: int) -> None:
        """Queue one song; its windows are decoded together with those of others."""
        self.validator.add(item, self.global_step)

    def on_validation_epoch_end(self) -> None:
        """Decode what is left, add up over ranks, log; nothing when a signal cut the validation short."""
        values = self.validator.finish(self.global_step)
        if self.validator.cut:
            self.validation_cut = True
            return
        self.last_score = values.get("validation/macro_onset_f")
        self.last_validated_step = self.global_step
        if remark := self.schedule.observe(self.last_score):
            rank_zero_info(remark)
        if self.data_weights is not None:
            values |= self.data_weights.observe(values, self.consumed_samples)
        self.log_numbers(values, on_step=False)

    def on_validation_end(self) -> None:
        """Training goes on, or ends where a signal cut the validation short."""
        self.clock.run()
        if self.validation_cut:
            self.stop_by_signal()

    # --- start and end ------------------------------------------------------------------------------

    def on_train_end(self) -> None:
        """Stop the clock."""
        self.clock.pause()
