"""A run small enough for tests: sine songs in a store, a network of some thousand weights.

As a program it does one run of that kind: ``python tiny.py '{"folder": ..., "data_home": ..., ...}'``.
Lightning starts further ranks with the same command line.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from amt.config import Experiment
from amt.data.store import StoreWriter
from amt.notes import Note, notes_to_array

RATE = 16000
SETTINGS = {
    "exp_id": "tiny",
    "task": "mc13_fsingle_vocal",
    "event_length": 64,
    "seed": 5,
    "audio.codec": "logspec",
    "audio.hop_length": 300,
    "audio.segment_samples": 8000,
    "model.encoder_type": "perceiver-tf",
    "model.pre_decoder_type": "linear",
    "model.pre_encoder.type": "strided",
    "model.pre_encoder.out_channels": 8,
    "model.pre_encoder.time_stride": 2,
    "model.encoder.num_latents": 2,
    "model.encoder.d_latent": 16,
    "model.encoder.d_model": 16,
    "model.encoder.qk_channels": 16,
    "model.encoder.v_channels": 16,
    "model.encoder.num_heads": 2,
    "model.encoder.num_blocks": 1,
    "model.encoder.num_local_layers": 1,
    "model.encoder.num_temporal_layers": 1,
    "model.encoder.attention_to_channel": False,
    "model.encoder.position_encoding": "sinusoidal",
    "model.encoder.dropout": 0.1,
    "model.decoder.d_model": 32,
    "model.decoder.num_layers": 1,
    "model.decoder.num_heads": 2,
    "model.decoder.d_kv": 16,
    "model.decoder.dropout": 0.1,
    "model.memory_positions": "sinusoid",
    "model.frame_groups": ["voice"],
    "objective.frame_weight": 1.0,
    "objective.soft_shift_ms": 20.0,
    "data.presets": ["sines"],
    "bsz.sub": 2,
    "bsz.local": 2,
    "bsz.validation": 4,
    "bsz.test": 4,
    "dataio.num_workers": 0,
    "optimizer.name": "AdamW",
    "optimizer.learning_rate": 2e-3,
    "lr_schedule.warmup_steps": 2,
    "trainer.max_steps": 6,
    "trainer.val_interval": 3,
    "trainer.log_every_n_steps": 1,
    "trainer.precision": "32",
    "trainer.strategy": "auto",
    "trainer.num_threads": 1,
    "wandb.mode": "disabled",
}


USED_EXPERTS = {}
"""Of this rank: step to the sorted numbers of the experts that had tokens."""


def experiment(**changes):
    """The tiny run with some leaves changed; ``__`` stands for the dot."""
    plain = {}
    for leaf, value in (SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}).items():
        *path, name = leaf.split(".")
        place = plain
        for part in path:
            place = place.setdefault(part, {})
        place[name] = value
    return Experiment.from_dict(plain)


def make_store(
    data_home: Path, songs=(("train", 3), ("validation", 3)), seconds=2.0, name="sines", program=100
):
    """A store, usually ``sines``: sung sine tones over a bass, known notes, of the singer unless said."""
    rng = np.random.default_rng(0)
    with StoreWriter(data_home / name, name) as writer:
        for split, count in songs:
            writer.add_split(split)
            for number in range(count):
                time = np.arange(int(seconds * RATE)) / RATE
                voice = np.zeros_like(time)
                notes = []
                for onset in np.arange(0.1, seconds - 0.4, 0.4):
                    pitch = int(rng.integers(55, 75))
                    sounding = (time >= onset) & (time < onset + 0.3)
                    voice[sounding] += np.sin(2 * np.pi * 440 * 2 ** ((pitch - 69) / 12) * time[sounding])
                    notes.append(Note(float(onset), float(onset + 0.3), pitch, program))
                stems = np.stack([voice * 0.4, 0.2 * np.sin(2 * np.pi * 110 * time)])
                writer.add_song(
                    split,
                    f"{split}{number}",
                    (stems * 32767).astype(np.int16),
                    [[program], [33]],
                    ["voice", "bass"],
                    notes_to_array(notes),
                    {},
                )
    return data_home


def train(
    folder,
    data_home,
    checkpoint=None,
    kind="scratch",
    step=0,
    fault="",
    dump=None,
    options=None,
    signal_in_validation=None,
    fp16=False,
    nan_from=None,
    memory_fails=None,
    slow_output=None,
    steer_experts=None,
    killed=None,
    **changes,
):
    """One run in ``folder``; returns its exit status. Each rank leaves its end state in ``dump``.

    In each validation the rank ``signal_in_validation`` gets a SIGTERM. ``fp16`` trains with it and a
    gradient scaler on the CPU. ``nan_from`` and ``memory_fails`` are (rank, step): from there on the loss of
    that rank is NaN; there its memory is used up. ``slow_output`` (limit, seconds): ranks wait so long for
    each other, and rank 0 takes so long to write a file of a validation. ``steer_experts`` is (one, both): in
    every second step expert ``one`` gets no token of rank 1 and some of the others, in every third step
    expert ``both`` gets none on any rank, in the other two some on all; which experts had tokens in each step
    is left in ``dump`` too. ``killed`` (rank, step, place): that rank is killed in that "step", or in the
    "validation" of that step.
    """
    if killed is not None:
        _kill(*killed)
    if steer_experts is not None:
        _steer_experts(*steer_experts)
    if signal_in_validation is not None:
        _signal_in_validation(signal_in_validation)
    if fp16:
        _fp16_on_cpu()
    if nan_from is not None:
        _nan_from(*nan_from)
    if memory_fails is not None:
        _memory_fails(*memory_fails)
    if slow_output is not None:
        _slow_output(*slow_output)
    if dump is not None:
        _dump_at_the_end(Path(dump))
    from amt.training.fit import run_training
    from amt.training.identity import RunDecision
    from amt.training.plan import RunPaths

    decision = RunDecision(kind, None if checkpoint is None else Path(checkpoint), "a test", step, False)
    paths = RunPaths(Path(folder), Path(data_home))
    return run_training(experiment(**changes), decision, paths, fault=fault, **(options or {}))


def _dump_at_the_end(folder):
    import torch

    from amt.training.module import TranscriptionModule

    finish = TranscriptionModule.on_train_end

    def on_train_end(self):
        finish(self)
        folder.mkdir(parents=True, exist_ok=True)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizers().state_dict()["state"]}
        state |= {"lr_scale": self.guard.lr_scale, "num_dropped": self.guard.num_dropped}
        state["used_experts"] = USED_EXPERTS
        torch.save(state, folder / f"rank{self.global_rank}.pt")

    TranscriptionModule.on_train_end = on_train_end


def _signal_in_validation(rank):
    from amt.training.module import TranscriptionModule

    add = TranscriptionModule.validation_step

    def validation_step(self, item, batch_idx):
        if self.global_rank == rank and batch_idx == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return add(self, item, batch_idx)

    TranscriptionModule.validation_step = validation_step


def _fp16_on_cpu():
    from dataclasses import replace

    import pytorch_lightning as pl
    import torch
    from pytorch_lightning.plugins.precision import MixedPrecision

    from amt.training import trainer

    resolve, build = trainer.resolve_hardware, pl.Trainer

    def build_fp16(*, precision, plugins, **settings):
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        return build(plugins=[*plugins, MixedPrecision("16-mixed", "cpu", scaler=scaler)], **settings)

    trainer.resolve_hardware = lambda *given: replace(resolve(*given), precision="16-mixed")
    pl.Trainer = build_fp16


def _nan_from(rank, step):
    from amt.training.faults import StepFault

    StepFault.spoils = lambda self, now, own: own == rank and now >= step


def _memory_fails(rank, step):
    import torch

    from amt.training.module import TranscriptionModule

    train = TranscriptionModule.training_step

    def training_step(self, batch, batch_idx):
        if (self.global_rank, self.global_step + 1) == (rank, step):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB")
        return train(self, batch, batch_idx)

    TranscriptionModule.training_step = training_step


def _kill(rank, step, place):
    from amt.training.module import TranscriptionModule

    name = "training_step" if place == "step" else "validation_step"
    take = getattr(TranscriptionModule, name)

    def killed(self, batch, batch_idx):
        if (self.global_rank, self.global_step + (place == "step")) == (rank, step):
            os.kill(os.getpid(), signal.SIGKILL)
        return take(self, batch, batch_idx)

    setattr(TranscriptionModule, name, killed)


def _steer_experts(one, both):
    import torch

    from amt.model.layers import experts
    from amt.training.module import TranscriptionModule

    train, plan_rows, place = TranscriptionModule.training_step, experts.plan_rows, {}

    def steered(gate, given, scores):
        if not gate.training:
            return scores
        more = torch.zeros_like(scores)
        if place["step"] % 2 == 1:
            if place["rank"] == 1:
                more[:, one] = -1e4
            else:
                more[0, one] = 1e4
        if place["step"] % 3 == 0:
            more[:, both] = -1e4
        else:
            more[1, both] = 1e4
        return scores + more

    def training_step(self, batch, batch_idx):
        if not place:
            for part in self.model.modules():
                if isinstance(part, experts.MixtureOfExperts):
                    part.gate.register_forward_hook(steered)
        place.update(step=self.global_step + 1, rank=self.global_rank)
        return train(self, batch, batch_idx)

    def noted(chosen, *given, **named):
        if torch.is_grad_enabled():
            USED_EXPERTS.setdefault(place["step"], []).extend(chosen.unique().tolist())
        return plan_rows(chosen, *given, **named)

    TranscriptionModule.training_step = training_step
    experts.plan_rows = noted


def _slow_output(limit, seconds):
    import time
    from datetime import timedelta

    from amt.training import fit, trainer

    write_of = fit._midi_writer

    def slow_writer(outputs):
        write = write_of(outputs)

        def slow(*given):
            if int(os.environ.get("LOCAL_RANK", "0")) == 0:
                time.sleep(seconds)
            write(*given)

        return slow

    fit._midi_writer = slow_writer
    trainer.TIMEOUT = timedelta(seconds=limit)


def start(folder, data_home, limit=300, **settings):
    """:func:`train` in a process of its own, which starts its further ranks itself."""
    text = json.dumps({"folder": str(folder), "data_home": str(data_home), **settings})
    command = [sys.executable, __file__, text]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with the ranks it has started
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


if __name__ == "__main__":
    sys.exit(train(**json.loads(sys.argv[1])))
