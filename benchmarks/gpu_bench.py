"""The parts of ``benchmarks/gpu.py``: one network on one device, and the figures of it."""

from __future__ import annotations

import csv
import gc
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from baselines.plain_network import PlainNetwork
from device_rates import BytesMoved, exact_products, matrix_rate, memory_rate, peak_bytes_of, seconds_of
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.published_models import get_published_model
from amt.data.collate import label_buckets
from amt.data.store import StoreWriter
from amt.losses import token_cross_entropy
from amt.model import Transcriber, build_from
from amt.optim import build_optimizer
from amt.tokenizer import NoteTokenizer
from amt.training.compiling import compiled_passes
from amt.training.memory import GIB, estimate_memory
from data import song_notes

STANDARD: dict[str, Any] = {
    **get_published_model("ptf_t5"),
    "task": "mc13_fsingle",
    "event_length": 2048,
    "model.logit_scale": 1.0,
    "model.encoder.dropout": 0.05,
    "optimizer.name": "AdamW",
    "optimizer.learning_rate": 1.5e-4,
}
"""The network of ``train_mc13.sh``."""
SMOKE: dict[str, Any] = {
    "event_length": 96,
    "audio.segment_samples": 8000,
    "model.pre_encoder.out_channels": 8,
    "model.encoder.num_latents": 4,
    "model.encoder.num_heads": 2,
    "model.encoder.num_blocks": 1,
    "model.encoder.d_latent": 16,
    "model.encoder.d_model": 16,
    "model.encoder.qk_channels": 16,
    "model.encoder.v_channels": 16,
    "model.decoder.d_model": 32,
    "model.decoder.num_layers": 1,
    "model.decoder.num_heads": 2,
    "model.decoder.d_kv": 16,
}


@dataclass(frozen=True)
class Figure:
    """A row of the result."""

    name: str
    value: float | None
    unit: str = ""
    target: str = ""
    met: bool | None = None
    """None: there is no target, or it does not count here."""
    note: str = ""


class Bench:
    """One network on one device.

    Args:
        smoke: tiny sizes; targets do not count.
        device: where it runs.
    """

    def __init__(self, smoke: bool, device: torch.device) -> None:
        self.smoke, self.device = smoke, device
        self.batches = (2, 4) if smoke else (16, 36)
        self.experiment = replace_leaves(Experiment(), {**STANDARD, **(SMOKE if smoke else {})})
        self.tokenizer = NoteTokenizer.from_experiment(self.experiment)
        self.length = self.tokenizer.sequence_length
        self.figures: list[Figure] = []

    def add(
        self, name: str, value: float | None, unit: str, at_least: float | None = None, **more: Any
    ) -> None:
        """Note a figure; ``at_most`` or ``at_least`` is its target."""
        at_most = more.pop("at_most", None)
        target, met = "", None
        if at_least is not None:
            target, met = f"at least {at_least:g}", value is not None and value >= at_least
        elif at_most is not None:
            target, met = f"at most {at_most:g}", value is not None and value <= at_most
        self.figures.append(Figure(name, value, unit, target, None if self.smoke else met, **more))
        print(row(self.figures[-1]), flush=True)

    def network(self, dropout: bool = True) -> Transcriber:
        """With the weights of seed 0, on the device."""
        torch.manual_seed(0)
        experiment = self.experiment
        if not dropout:
            off = {"model.encoder.dropout": 0.0, "model.decoder.dropout": 0.0}
            experiment = replace_leaves(experiment, off)
        return build_from(experiment, self.tokenizer).train().to(self.device)

    def batch(self, size: int, length: int | None = None) -> tuple[Tensor, Tensor]:
        """Audio and labels made up, on the device."""
        generator = torch.Generator().manual_seed(1)
        audio = 0.1 * torch.randn(size, 1, self.experiment.audio.segment_samples, generator=generator)
        shape = (size, self.tokenizer.num_channels, self.length if length is None else length)
        labels = torch.randint(3, self.tokenizer.vocab_size, shape, generator=generator)
        return audio.to(self.device), labels.to(self.device)

    def mixed(self) -> AbstractContextManager[Any]:
        """bf16-mixed."""
        return torch.autocast(self.device.type, torch.bfloat16)

    # --- parts --------------------------------------------------------------------------------------

    def parity(self) -> None:
        """Logits, loss and gradient in bf16 on the device against float32 on the CPU."""
        audio, labels = self.batch(1, min(self.length, 128))

        def results(model: Transcriber, context: AbstractContextManager[Any]) -> tuple[Tensor, float, float]:
            device = next(model.parameters()).device
            with context:
                logits = model(audio.to(device), labels.to(device))
                loss = token_cross_entropy(logits, labels.to(device))
            loss.backward()
            norm = torch.nn.utils.get_total_norm(
                [item.grad for item in model.parameters() if item.grad is not None]
            )
            return logits.detach().float().cpu(), float(loss.detach()), float(norm)

        model = self.network(dropout=False)
        logits, loss, norm = results(model, self.mixed())
        exact, exact_loss, exact_norm = results(self.network(dropout=False).cpu(), nullcontext())
        self.add(
            "bf16 against CPU float32: logits",
            float((logits - exact).norm() / exact.norm()),
            "relative",
            at_most=0.05,
        )
        self.add("bf16 against CPU float32: loss", abs(loss / exact_loss - 1), "relative", at_most=0.01)
        self.add(
            "bf16 against CPU float32: gradient norm", abs(norm / exact_norm - 1), "relative", at_most=0.05
        )

    def optimizer(self) -> None:
        """The optimizer a run builds: fused, and what that saves."""
        model = self.network()
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        ours = build_optimizer("AdamW", model.named_parameters(), 1e-4)
        fused = all(group["fused"] for group in ours.param_groups)
        plain = torch.optim.AdamW(model.parameters(), foreach=False, fused=False)
        ratio = seconds_of(plain.step, self.device, 5) / seconds_of(ours.step, self.device, 5)
        self.add("AdamW is fused", float(fused), "", at_least=1)
        self.add("fused AdamW against one kernel per tensor", ratio, "x faster")

    def step(self, size: int) -> Callable[[], None]:
        """A whole training step in bf16-mixed at the full label length."""
        model = self.network()
        optimizer = build_optimizer("AdamW", model.named_parameters(), 1e-4)
        audio, labels = self.batch(size)

        def run() -> None:
            with self.mixed():
                loss = token_cross_entropy(model(audio, labels), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    def memory(self) -> None:
        """Peak of a step at both batch sizes against the estimate that a run prints."""
        for size in self.batches:
            sizes = replace(self.experiment.bsz, sub=size, local=size)
            estimate = estimate_memory(
                build_from(self.experiment, self.tokenizer),
                replace(self.experiment, bsz=sizes),
                self.length,
                mixed=True,
                on_cpu=self.device.type == "cpu",
            )
            name = f"-bsz {size} {size} -el {self.length}"
            self.add(f"{name}: estimate", estimate.total / GIB, "GiB")
            with self.released():
                run = self.step(size)
                try:
                    run()  # moments are there from the second step on
                    measured = peak_bytes_of(run, self.device)
                except torch.OutOfMemoryError:
                    self.add(f"{name}: peak", None, "GiB", note="out of memory")
                    continue
                finally:
                    del run
            wanted = estimate.total if self.device.type == "cuda" else estimate.activations
            self.add(f"{name}: peak", measured / GIB, "GiB")
            self.add(f"{name}: peak over estimate", measured / wanted, "", at_most=1.25)

    def speed(self) -> None:
        """A step against the plain eager one in float32, and how near it is to what the card can do."""
        rates = matrix_rate(self.device, torch.bfloat16, 256 if self.smoke else 8192)
        bandwidth = memory_rate(self.device, 2**20 if self.smoke else 2**30)
        self.add("matrix products in bf16", rates / 1e12, "TFLOP/s")
        self.add("memory", bandwidth / 1e9, "GB/s")
        for size in (self.batches[0], self.batches[0] // 2, 1):
            try:
                with self.released():
                    plain = seconds_of(self.plain_step(size), self.device, 3)
                break
            except torch.OutOfMemoryError:
                print(f"the plain step has no room for {size} segments", flush=True)
        else:
            self.add("step against the eager float32 step", None, "x", at_least=2.5, note="out of memory")
            return
        with self.released():
            run = self.step(size)
            ours = seconds_of(run, self.device, 5)
            with FlopCounterMode(display=False) as flops:
                run()
            with BytesMoved() as moved:
                run()
            del run
        self.add(f"step, {size} segments of {self.length} tokens", ours * 1000, "ms")
        self.add("step against the eager float32 step", plain / ours, "x faster", at_least=2.5)
        shares = flops.get_total_flops() / ours / rates, moved.total / ours / bandwidth
        self.add("share of the matrix rate", shares[0], "")
        self.add("share of the memory rate", shares[1], "", note="inputs and outputs of every kernel")
        self.add("the larger share", max(shares), "", at_least=0.4)

    def plain_step(self, size: int) -> Callable[[], None]:
        """The same arithmetic written out, float32 without TF32, one kernel per tensor in the optimizer."""
        plain = PlainNetwork(self.network(), self.experiment.model)
        optimizer = torch.optim.AdamW(plain.parameters(), foreach=False, fused=False)
        audio, labels = self.batch(size)

        def run() -> None:
            with exact_products():
                loss = torch.nn.functional.cross_entropy(
                    plain.logits(audio, labels).flatten(0, 2), labels.flatten()
                )
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return run

    def compiling(self) -> None:
        """``--compile`` over the label buckets: no compilation after the second length."""
        model = self.network()
        compile_ = torch.compile
        if self.smoke:
            torch.compile = partial(compile_, backend="eager")  # type: ignore[assignment]
        try:
            encode, decode = compiled_passes(model)
        finally:
            torch.compile = compile_
        counters = torch._dynamo.utils.counters
        counters.clear()
        size, graphs, seconds = self.batches[0], [], 0.0
        for length in label_buckets(self.length)[1:]:
            audio, labels = self.batch(size, length)

            def run(audio: Tensor = audio, labels: Tensor = labels) -> None:
                with self.mixed():
                    loss = token_cross_entropy(decode(encode(audio), labels), labels)
                loss.backward()
                model.zero_grad()

            run()
            graphs.append(counters["stats"]["unique_graphs"])
            if length == self.length:
                seconds = seconds_of(run, self.device, 3)
        self.add(
            "--compile: compilations after the second label length", graphs[-1] - graphs[1], "", at_most=0
        )
        self.add(f"--compile: forward and backward, {size} segments", seconds * 1000, "ms")

    def data_wait(self) -> None:
        """A real run with 8 workers on made-up songs: its own log says how long it waited."""
        workers, steps = (1, 4) if self.smoke else (8, 60)
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            write_store(home / "data", songs=2 if self.smoke else 8, seconds=10.0 if self.smoke else 120.0)
            changes = {**STANDARD, **(SMOKE if self.smoke else {}), "event_length": 96 if self.smoke else 512}
            experiment = replace_leaves(Experiment(), changes)
            (home / "run.json").write_text(experiment.to_json(), encoding="utf-8")
            size = str(self.batches[0])
            line = [sys.executable, "-m", "amt.train", "gpu", "--config", str(home / "run.json")]
            line += ["-d", "songs", "-bsz", size, size, "-it", str(steps), "-vit", "1000", "-s", "constant"]
            line += ["--num-workers", str(workers), "--set", "trainer.log_every_n_steps=2", "-wb", "disabled"]
            line += ["-g", "1", "--val-batch-size", "4"]
            environment = {
                **os.environ,
                "AMT_LOG_DIR": str(home / "logs"),
                "AMT_DATA_HOME": str(home / "data"),
            }
            done = subprocess.run(
                line, env=environment, capture_output=True, text=True, timeout=150, check=False
            )
            if done.returncode:
                print(done.stdout[-1000:] + done.stderr[-2000:], flush=True)
                self.add(f"data wait, {workers} workers", None, "", at_most=0.03, note="the run failed")
                return
            with next((home / "logs").rglob("metrics.csv")).open(encoding="utf-8") as file:
                rows = [line for line in csv.DictReader(file) if line.get("data_wait_share")]
        rows = rows[len(rows) // 3 :]  # the first batches wait for workers to start
        for name, key, unit in (("segments", "segments_per_second", "1/s"), ("memory", "memory_gib", "GiB")):
            self.add(
                f"a run with {workers} workers: {name}",
                statistics.median(float(line[key]) for line in rows),
                unit,
            )
        wait = statistics.mean(float(line["data_wait_share"]) for line in rows)
        self.add(f"data wait, {workers} workers", wait, "", at_most=0.03)

    @contextmanager
    def released(self) -> Iterator[None]:
        """What the block has allocated is given back after it."""
        try:
            yield
        finally:
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()


def write_store(home: Path, songs: int, seconds: float) -> None:
    """A store ``songs`` of made-up music with four stems; one short song to validate with."""
    rng = np.random.default_rng(0)
    programs = [[0], [33], [27], [128]]
    with StoreWriter(home / "songs", "songs") as writer:
        for number in range(songs + 1):
            split, length = ("train", seconds) if number < songs else ("validation", 4.0)
            stems = rng.normal(0, 1500, (len(programs), int(length * 16000))).astype(np.int16)
            notes = song_notes(rng, programs, length)
            writer.add_song(split, f"song{number}", stems, programs, ["a", "b", "c", "d"], notes)


def row(figure: Figure) -> str:
    """A line of the table."""
    value = "-" if figure.value is None else f"{figure.value:.4g}"
    met = {None: "", True: "yes", False: "NO"}[figure.met]
    note = f" ({figure.note})" if figure.note else ""
    return f"| {figure.name}{note} | {value} {figure.unit} | {figure.target} | {met} |"
