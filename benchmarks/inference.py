"""Transcription of whole songs: the real-time factor of windows decoded together against one window at a
time, and the memory of ``predict.py`` over the length of the song.

    python benchmarks/inference.py speed  [--checkpoint FILE] [--model NAME] [--seconds S] [--threads N]
    python benchmarks/inference.py memory [--checkpoint FILE] [--minutes M ...]

Without a checkpoint the network has random weights. ``speed`` then takes a published configuration in 13
channels and forces each row to the length of reference labels, so that the work is that of music; with one,
rows end where the network says. ``memory`` takes a small network whose sequences are capped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.published_models import get_published_model
from amt.config.recipes import RECIPES
from amt.inference import DecodingChoices, SongTranscriber, load_transcriber, untrained_transcriber
from amt.inference.song_queue import SongQueue
from amt.model.decoder import Constraint, Row
from data import private_bytes
from model import ForcedLengths, reference_lengths

RATE = 16000


class Measured(SongTranscriber):
    """Keeps the tokens of every row, and ends rows at given lengths."""

    lengths: torch.Tensor | None = None
    """(rows,) of the whole song; None lets rows end by themselves."""
    first_row = 0
    """Of the song, where the sound that is transcribed is a part of it."""

    def __init__(self, made: SongTranscriber, batch_size: int) -> None:
        choices = DecodingChoices(batch_size=batch_size, precision=made.precision, overlap=0.0)
        super().__init__(made.model, made.experiment, made.tokenizer, choices, device=made.device)
        self.rows: dict[int, list[int]] = {}

    def _constraint(self) -> Constraint | None:
        if self.lengths is None:
            return super()._constraint()
        return ForcedLengths(self.lengths[self.first_row :], self.tokenizer.vocab_size)

    def _decode(self, queue: SongQueue) -> Iterator[Row]:
        for row in super()._decode(queue):
            self.rows[self.first_row + row.number] = row.ids.tolist()
            yield row


def music(seconds: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Tones that change four times a second, with a little noise."""
    random = np.random.default_rng(0)
    steps = np.repeat(random.uniform(110, 880, int(seconds * 4) + 1), RATE // 4)[: int(seconds * RATE)]
    wave = 0.2 * np.sin(2 * np.pi * np.cumsum(steps) / RATE) + random.normal(0, 0.01, len(steps))
    return wave.astype(np.float32)


def timed(work: Any) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def speed(checkpoint: str, name: str, seconds: float, batch_size: int) -> None:
    """One song, its windows together and one by one."""
    if checkpoint:
        made = load_transcriber(checkpoint, DecodingChoices(overlap=0.0), device="cpu")
    else:
        experiment = replace_leaves(Experiment(), get_published_model(name))
        made = untrained_transcriber(experiment, device="cpu")
    fast, single = Measured(made, batch_size), Measured(made, 1)
    segment = made.experiment.audio.segment_samples
    windows = int(seconds * RATE) // segment
    song = music(windows * segment / RATE + 1)[: windows * segment]
    channels = made.tokenizer.num_channels
    if not checkpoint:
        lengths = reference_lengths(seconds + 3)[:windows, :channels].flatten()
        fast.lengths = single.lengths = lengths
    length = len(song) / RATE

    def one_by_one() -> None:
        for number in range(windows):
            single.first_row = number * channels
            single.transcribe(song[number * segment : (number + 1) * segment])

    fast.transcribe(song[: 2 * segment])  # warms up
    fast.rows.clear()
    wall, cpu = timed(lambda: fast.transcribe(song))
    slow_wall, slow_cpu = timed(one_by_one)
    equal = sum(fast.rows[row] == single.rows[row] for row in fast.rows)
    assert len(fast.rows) == len(single.rows) == windows * channels
    tokens = sum(map(len, fast.rows.values()))
    print(
        f"{checkpoint or name}, {length:.0f} s, {windows} windows of {channels} channels, {tokens} tokens, "
        f"{torch.get_num_threads()} threads: {length / wall:.2f} times real time ({length / cpu:.2f} s of "
        f"sound per CPU second), {batch_size} windows together; one window at a time "
        f"{length / slow_wall:.2f} ({length / slow_cpu:.2f}), {slow_cpu / cpu:.1f}x as long; "
        f"{equal} of {len(fast.rows)} rows equal",
        flush=True,
    )


def save_untrained(path: Path) -> Path:
    """The quick start's network with random weights and sequences of at most 64 tokens."""
    experiment = replace_leaves(Experiment(), dict(RECIPES["quickstart"]))
    made = untrained_transcriber(replace(experiment, event_length=64), device="cpu")
    state = {f"model.{name}": value for name, value in made.model.state_dict().items()}
    torch.save({"amt_format": 1, "experiment": made.experiment.to_json(), "state_dict": state}, path)
    return path


def memory(checkpoint: str, minutes: list[float]) -> None:
    """``predict.py`` in a process of its own, watched ten times a second."""
    with tempfile.TemporaryDirectory() as folder:
        model = checkpoint or str(save_untrained(Path(folder) / "untrained.ckpt"))
        minute = music(60)
        for length in minutes:
            path = Path(folder) / f"{length:g} minutes.flac"
            with soundfile.SoundFile(path, "w", RATE, 1) as file:
                for _ in range(max(1, round(length))):
                    file.write(minute)
            command = [sys.executable, "-m", "amt.predict", model, str(path), "-o", folder, "--device", "cpu"]
            begun = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            private = resident = 0.0
            while process.poll() is None:
                try:
                    private = max(private, private_bytes(process.pid) / 1e6)
                    resident = max(resident, _resident(process.pid) / 1e6)
                except (OSError, ValueError):  # it ended between two looks
                    break
                time.sleep(0.1)
            status = process.wait()
            taken = time.perf_counter() - begun
            print(
                f"predict, {length:g} minutes: at most {private:.0f} MB private (USS), {resident:.0f} MB "
                f"resident (RSS); {length * 60 / taken:.1f} times real time, start included; status {status}",
                flush=True,
            )


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def main() -> None:
    """See the first lines of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("speed", "memory"), help="default: both")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--model", default="yptf_moe_multi")
    parser.add_argument("--seconds", type=float, default=33.0)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, nargs="+", default=[2, 10, 30])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.part != "memory":
        speed(given.checkpoint, given.model, given.seconds, given.batch_size)
    if given.part != "speed":
        memory(given.checkpoint, given.minutes)


if __name__ == "__main__":
    main()
