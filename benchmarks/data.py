"""What the data path costs: segments per CPU second, start, memory of workers, scaling over workers.

The songs are made up (180 s, 4 stems, 2,700 notes, as in a rock song); segments have 32,767 samples,
sub-batches 16. Rates are per CPU second of one thread (``time.process_time``), median of five, files in
the page cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from amt.config import AudioConfig, Augmentation
from amt.config.data import BatchSizes, DataConfig, DataIO
from amt.config.experiment import Experiment
from amt.data.augment.pitch import PitchShift, shift_audio
from amt.data.augment.vocoder import shift_pitch
from amt.data.batch import Batch
from amt.data.dataset import TrainingBatches
from amt.data.module import TranscriptionData
from amt.data.segments import SegmentMaker, TrainingSet
from amt.data.store import SongStore, StoreWriter
from amt.notes.note import NOTE_DTYPE, NoteArray
from amt.tokenizer import NoteTokenizer

RATE = 16000
SEGMENT = 32767
SUB_BATCH = 16
PROGRAMS = ([[0], [33], [27], [128]], [[4], [35], [48], [128]], [[100], [24], [73], [128]])
OFF = Augmentation(amp_range=(1.0, 1.0), stem_keep_prob=1.0, xaug_max_k=0, pitch_shift_range=(0.0, 0.0))
DROP = Augmentation(amp_range=(0.8, 1.1), stem_keep_prob=0.7, xaug_max_k=0, pitch_shift_range=(0.0, 0.0))
CROSS = Augmentation(
    amp_range=(0.8, 1.1), stem_keep_prob=0.7, xaug_max_k=3, xaug_tau=0.3, pitch_shift_range=(0.0, 0.0)
)
SHIFT = Augmentation(
    amp_range=(0.8, 1.1), stem_keep_prob=0.7, xaug_max_k=3, xaug_tau=0.3, pitch_shift_range=(-2.0, 2.0)
)
ALL = Augmentation(
    stem_keep_prob=0.7, xaug_max_k=3, xaug_tau=0.3, noise_prob=0.5, reverb_prob=0.5, eq_prob=0.5
)


def song_notes(rng: np.random.Generator, programs: Sequence[Sequence[int]], seconds: float) -> NoteArray:
    """15 notes a second, spread over the stems."""
    count = int(15 * seconds)
    notes = np.zeros(count, NOTE_DTYPE)
    notes["onset"] = np.sort(rng.uniform(0, seconds - 1, count))
    notes["offset"] = notes["onset"] + rng.uniform(0.05, 0.8, count)
    notes["pitch"] = rng.integers(30, 90, count)
    notes["velocity"] = 100
    program = np.array([group[0] for group in programs])[rng.integers(0, len(programs), count)]
    notes["is_drum"] = program == 128
    notes["program"] = program
    return notes


def write_songs(path: Path, *, songs: int = 8, seconds: float = 180.0, flac: bool = False) -> SongStore:
    """A store of made-up songs."""
    rng = np.random.default_rng(0)
    with StoreWriter(path, path.name, flac=flac) as writer:
        for number in range(songs):
            programs = PROGRAMS[number % len(PROGRAMS)]
            size = int(seconds * RATE)
            noise = rng.normal(0, 1500, (len(programs), size // 8 + 1))
            stems = np.repeat(noise, 8, axis=1)[:, :size].astype(np.int16)
            notes = song_notes(rng, programs, seconds)
            writer.add_song("train", f"song{number}", stems, programs, ["a", "b", "c", "d"], notes)
    return SongStore.open(path)


def multiply(source: Path, path: Path, copies: int) -> Path:
    """A store of ``copies`` songs that share the files of ``source`` (hard links)."""
    with StoreWriter(path, path.name) as writer:
        writer.add_split("train")
    rows = np.load(source / "index" / "train.npy")
    table = np.tile(rows, copies // len(rows))
    names = np.array([f"s{i}" for i in range(len(table))])
    wide = np.zeros(len(table), dtype=[("song_id", names.dtype), *rows.dtype.descr[1:]])
    for name in rows.dtype.names or ():
        wide[name] = names if name == "song_id" else table[name]
    for new, old in zip(names.tolist(), table["song_id"].tolist(), strict=True):
        (path / "songs" / new).mkdir()
        for file in (source / "songs" / old).iterdir():
            os.link(file, path / "songs" / new / file.name)
    np.save(path / "index" / "train.npy", wide)
    header = (path / "store.json").read_text().replace('"songs": 0', f'"songs": {len(wide)}')
    (path / "store.json").write_text(header)
    return path


def batches(store: SongStore, augmentation: Augmentation, task: str, length: int = 1024) -> TrainingBatches:
    """The training batches of one process."""
    audio = AudioConfig(segment_samples=SEGMENT)
    tokenizer = NoteTokenizer.from_task(task, segment_samples=SEGMENT, max_length=length)
    sets = [TrainingSet(store.name, store, ("train",))]
    maker = SegmentMaker(sets, tokenizer, audio, augmentation, seed=1, sub_batch=SUB_BATCH)
    return TrainingBatches(maker, tokenizer, audio, local_batch=SUB_BATCH)


def rate(store: SongStore, augmentation: Augmentation, task: str, seconds: float) -> float:
    """Segments per CPU second, median of five."""
    stream = iter(batches(store, augmentation, task))
    for _ in range(6):
        next(stream)
    found = []
    for _ in range(5):
        count, begin = 0, time.process_time()
        while time.process_time() - begin < seconds:
            next(stream)
            count += SUB_BATCH
        found.append(count / (time.process_time() - begin))
    return statistics.median(found)


def experiment(store: str, workers: int) -> Experiment:
    """A run on one store with cross-stem mixing."""
    return Experiment(
        task="mt3_full_plus",
        audio=AudioConfig(segment_samples=SEGMENT),
        data=DataConfig((store,)),
        bsz=BatchSizes(SUB_BATCH, SUB_BATCH, 1, 1),
        dataio=DataIO(num_workers=workers, prefetch_factor=2),
        augmentation=CROSS,
    )


def module(home: Path, store: str, workers: int = 0) -> TranscriptionData:
    """The data module of that run."""
    run = experiment(store, workers)
    tokenizer = NoteTokenizer.from_experiment(run)
    return TranscriptionData(run, tokenizer, home)


def first_batch(home: Path, store: str) -> tuple[float, float]:
    """Seconds to open a store, and from nothing to the first batch of 16."""
    begin = time.perf_counter()
    SongStore.open(home / store)
    opened = time.perf_counter() - begin
    begin = time.perf_counter()
    next(iter(module(home, store).train_dataloader()))
    return opened, time.perf_counter() - begin


def private_bytes(pid: int) -> int:
    """Memory that only this process holds (USS)."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) * 1024


def worker_memory(home: Path, store: str, rounds: int) -> float:
    """MB that are private to a loader process after ``rounds`` batches of its own."""
    loader = iter(module(home, store, workers=1).train_dataloader())
    for _ in range(rounds):
        next(loader)
    (worker,) = loader.processes  # type: ignore[attr-defined]
    return private_bytes(worker.pid) / 1e6


def cpu_of(pid: int) -> float:
    """CPU seconds of another process."""
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


class Loading:
    """A loader at work with some processes, measured in turn with others."""

    def __init__(self, home: Path, store: str, workers: int) -> None:
        self._loader: Iterator[Batch] = iter(module(home, store, workers=workers).train_dataloader())
        self._ahead = max(4, 4 * workers)
        processes = self._loader.processes if workers else []  # type: ignore[attr-defined]
        self._pids = [worker.pid for worker in processes]

    def measure(self, count: int) -> tuple[float, float]:
        """CPU milliseconds per segment of all processes together, and segments per second on the clock."""
        for _ in range(self._ahead):  # those made meanwhile
            next(self._loader)
        begin, cpu = time.perf_counter(), self._cpu()
        for _ in range(count):
            next(self._loader)
        segments = count * SUB_BATCH
        return 1000 * (self._cpu() - cpu) / segments, segments / (time.perf_counter() - begin)

    def _cpu(self) -> float:
        return time.process_time() + sum(map(cpu_of, self._pids))


def with_workers(home: Path, store: str, rounds: int = 5, count: int = 120) -> list[str]:
    """What 0, 1 and 2 loader processes cost: medians of rounds in turn, and of each round against 0."""
    loadings = [Loading(home, store, workers) for workers in (0, 1, 2)]
    spent, speed = np.array(
        [[loading.measure(count) for loading in loadings] for _ in range(rounds)]
    ).transpose(2, 1, 0)
    ratio = np.median(spent / spent[:1], axis=1)
    return [
        f"{workers} workers: {np.median(spent[workers]):.2f} ms CPU per segment ({ratio[workers]:.2f}x), "
        f"{np.median(speed[workers]):,.0f} segments/s wall"
        for workers in range(len(loadings))
    ]


def pitch_shifts() -> list[str]:
    """Cost of a shift of two semitones, by method: the loaders' two, and the batched one of the device."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    batch = rng.normal(0, 0.1, (SUB_BATCH, SEGMENT)).astype(np.float32)
    lines = []
    for name, keeps_time in (("speed", False), ("stretch", True)):
        shift = PitchShift(2, 0.0, keeps_time)
        found = []
        for _ in range(5):
            begin = time.process_time()
            for row in batch:
                shift_audio(row, shift, SEGMENT)
            found.append(time.process_time() - begin)
        lines.append(
            f"pitch shift, {name}: {1000 * statistics.median(found) / SUB_BATCH:.2f} ms CPU per segment"
        )
    speeds = torch.full((SUB_BATCH,), PitchShift(2).speed)
    for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
        audio, factors = torch.from_numpy(batch).to(device), speeds.to(device)
        found = []
        for _ in range(6):
            begin = time.perf_counter()
            shift_pitch(audio, factors)
            if device == "cuda":
                torch.cuda.synchronize()
            found.append(time.perf_counter() - begin)
        spent = 1000 * statistics.median(found[1:]) / SUB_BATCH
        lines.append(f"pitch shift, device ({device}): {spent:.2f} ms per segment")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds of each of five rounds")
    parser.add_argument("--only", default="", choices=("rates", "start", "memory", "workers", "pitch"))
    chosen = parser.parse_args()
    if chosen.only in ("", "pitch"):
        print("\n".join(pitch_shifts()))
    if chosen.only == "pitch":
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        store = write_songs(home / "few")
        if chosen.only in ("", "rates"):
            for task in ("mt3_full_plus", "mc13_full_plus_256"):
                for name, augmentation in (
                    ("no augmentation", OFF),
                    ("stem dropping", DROP),
                    ("cross-stem, K 3", CROSS),
                    ("cross-stem, K 3, pitch shift", SHIFT),
                    ("everything", ALL),
                ):
                    print(
                        f"{task}, {name}: {rate(store, augmentation, task, chosen.seconds):,.0f} segments/s"
                    )
            small = write_songs(home / "flac", songs=2, flac=True)
            print(
                f"FLAC, no augmentation: {rate(small, OFF, 'mt3_full_plus', chosen.seconds):,.0f} segments/s"
            )
        multiply(home / "few", home / "many", 8000)
        if chosen.only in ("", "start"):
            for name in ("few", "many"):
                opened, first = (
                    statistics.median(column)
                    for column in zip(*(first_batch(home, name) for _ in range(5)), strict=True)
                )
                songs = len(SongStore.open(home / name).index("train"))
                print(f"{songs} songs: open {1000 * opened:.1f} ms, to the first batch {1000 * first:.0f} ms")
        if chosen.only in ("", "memory"):
            long = write_songs(home / "long", songs=2, seconds=1800.0)
            for name, text in (("few", "8 songs"), ("many", "8,000 songs"), (long.name, "songs of 30 min")):
                print(f"private memory of a worker, {text}: {worker_memory(home, name, 150):.0f} MB")
        if chosen.only in ("", "workers"):
            print("\n".join(with_workers(home, "few")))


if __name__ == "__main__":
    main()
