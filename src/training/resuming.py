"""What a module does so that its run can end anywhere and go on: stopping, saving its state, coming back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pytorch_lightning.utilities import rank_zero_info
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig

from ..config import Experiment
from ..data.contents import Contents, describe_changes
from ..model.checkpoint_file import RL_START_WEIGHTS
from ..optim import StepSchedule
from ..rl.reinforce import Reinforce
from ..tokenizer import NoteTokenizer
from .counting import CountingModule
from .dynamic_weights import DynamicWeights
from .faults import StepFault
from .learning_rate import explain_new_rate, saved_rate
from .nonfinite import NonFiniteGuard
from .plan import RunPlan
from .signals import StopWish
from .state import (
    adopt_optimizer,
    checkpoint_extras,
    settle_loops,
    take_trained_weights,
    upgrade_checkpoint,
)
from .throughput import Throughput, TrainingClock


class ResumableModule(CountingModule):
    """A run's place, into a checkpoint and back, and the ends that come from outside.

    Args:
        plan: lengths of the run.
    """

    experiment: Experiment
    tokenizer: NoteTokenizer
    guard: NonFiniteGuard
    clock: TrainingClock
    throughput: Throughput
    fault: StepFault
    schedule: StepSchedule
    data_weights: DynamicWeights | None
    data_contents: Contents
    reinforce: Reinforce

    def __init__(self, plan: RunPlan) -> None:
        super().__init__(plan)
        self.last_validated_step = -1
        self.stop_reason = ""
        """Why training ended early, in words; empty when it did not."""
        self.stopped_by_signal = False
        self.only_validates = False
        """The run has taken its last step; the validation that was due there is made up for, and it ends."""
        self.validation_cut = False
        """A signal ended the validation that runs or ran last; its scores are not known."""
        self._stop_wish = StopWish(plan.world_size)

    @property
    def saving_allowed(self) -> bool:
        """False while the losses are not finite and the run goes on. Its end is saved: dropped steps have
        left the weights as they were, and a run whose last step is dropped would never be finished."""
        return self.guard.saving_allowed or self.trainer.should_stop

    # --- ending -------------------------------------------------------------------------------------

    def wants_stop(self) -> bool:
        """Whether this rank was told to stop by a signal."""
        return any(_signal_flag(callback) for callback in self.trainer.checkpoint_callbacks)

    def some_rank_wants_stop(self) -> bool:
        """The same for any rank, as far as it is known here; waits for nobody."""
        return self._stop_wish.look(self.wants_stop())

    def stop_by_signal(self) -> None:
        """All ranks come here at the same step: save and leave without another validation."""
        self.stop_reason = "a signal"
        if self.validation_cut:
            self.stop_reason += "; the validation of this step runs first when the run goes on"
        self.stopped_by_signal = True
        self.trainer.should_stop = True
        for callback in self.trainer.checkpoint_callbacks:
            save_and_stop = getattr(callback, "save_and_stop", None)
            if save_and_stop is not None:
                save_and_stop(self.trainer)
        self.trainer.limit_val_batches = 0

    # --- coming back --------------------------------------------------------------------------------

    def on_train_start(self) -> None:
        """Take the loops' place from the checkpoint; run a validation that was due and not finished."""
        self.fault.arm()
        self.show_epoch()
        loop = self.trainer.fit_loop.epoch_loop
        loop.restarting = False  # the state was settled at a step's end: nothing is half done
        step = self.global_step
        interval = self.experiment.trainer.val_interval
        due = step > 0 and step % interval == 0 and self.last_validated_step < step
        due = due or self.only_validates
        first = step == 0 and self.experiment.trainer.validate_before_fit
        if (due or first) and self.trainer.enable_validation:
            if due:
                rank_zero_info(f"the validation that was due at step {step} runs first")
            self.trainer.validating = True
            loop.val_loop.run()
            self.trainer.training = True
        if self.only_validates:
            self.trainer.should_stop = True
        self.throughput.start()
        self.clock.run()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what a file needs to stand alone, in plain types."""
        checkpoint["epoch"] = self.epoch_number
        checkpoint |= checkpoint_extras(self.experiment)
        checkpoint["amt_state"] = {
            "consumed_samples": self.consumed_samples,
            "last_validated_step": self.last_validated_step,
            "nan_lr_scale": self.guard.lr_scale,
            "elapsed_seconds": self.clock.elapsed,
            "num_dropped_steps": self.guard.num_dropped,
            "epoch_loss": self.epoch_loss.to_list(),
            "end_step": self.plan.max_steps,
            "data": self.data_contents,
        }
        if self.data_weights is not None:
            checkpoint["amt_state"]["data_weights"] = self.data_weights.state()
        if self.experiment.rl.enabled:
            checkpoint["amt_state"]["reinforce"] = self.reinforce.state()
            if start := self.reinforce.start_weights():
                checkpoint[RL_START_WEIGHTS] = start

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over the place in the run; bring the loops' counters to the end of a step."""
        upgrade_checkpoint(checkpoint)
        state: Mapping[str, Any] = checkpoint["amt_state"]
        step = int(checkpoint["global_step"])
        self.continue_from(step, int(state["consumed_samples"]))
        self.guard.last_good_step = step
        self.last_validated_step = int(state["last_validated_step"])
        self.guard.lr_scale = float(state["nan_lr_scale"])
        self.guard.num_dropped = int(state["num_dropped_steps"])
        self.epoch_loss.load_list(state["epoch_loss"])
        self.clock.restore(float(state["elapsed_seconds"]))
        if self.data_weights is not None:
            self.data_weights.load(state.get("data_weights"))
        self.reinforce.load(state.get("reinforce"), checkpoint.get(RL_START_WEIGHTS))
        if self.guard.lr_scale < 1:
            rank_zero_info(
                f"the learning rate stays multiplied by {self.guard.lr_scale:g} (nan_lr_scale of the "
                f"checkpoint, after {self.guard.num_dropped} dropped steps)"
            )
        settle_loops(checkpoint, self.experiment.trainer.accumulate_grad_batches)
        fresh = cast(OptimizerLRSchedulerConfig, self.configure_optimizers())
        before = saved_rate(checkpoint)
        remarks = [
            describe_changes(state.get("data", {}), self.data_contents),
            take_trained_weights(checkpoint, keeps_average=self.experiment.optimizer.ema_decay > 0),
            adopt_optimizer(checkpoint, self.experiment, fresh["optimizer"], self.schedule),
        ]
        self.schedule.load_state_dict(checkpoint["lr_schedulers"][0])
        now = self.schedule.current_rate
        remarks.append(explain_new_rate(checkpoint, self.experiment, self.plan, before, now))
        for remark in remarks:
            if remark:
                rank_zero_info(remark)


def _signal_flag(callback: Any) -> bool:
    flag = getattr(callback, "signal_flag", None)
    return bool(flag is not None and flag())
