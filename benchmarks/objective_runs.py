"""Short quick-start runs for ``objective.py``: labels that are wrong on purpose, a run, its scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from amt.config.environment import read_environment

DATA = read_environment(os.environ).data_home
STORE = "quickstart"
OCTAVES = (-24, -12, 0, 12, 24)
"""Semitones that a sample of unknown octave is moved by, one for all its notes."""
MATCH_SECONDS = 0.1
"""Notes of equal pitch this near are compared for the error of their onsets."""
WINDOW_SECONDS = 2.048
"""Length of a window in which notes are counted."""
VALIDATION_SONGS = 1
HARD = "onset_f_hard"
"""Name of the score of a hard mix."""
FULL_SIZE: dict[str, Any] = {
    "task": "mc13_fsingle_vocal",
    "event_length": 512,
    "inference.pitch_check": 0.0,
    "objective.frame_weight": 0.0,
    "objective.boundary_weight": 0.0,
    "optimizer.name": "AdamW",
    "optimizer.learning_rate": 3e-4,
}
"""What runs of the published size have of their own."""


@dataclass(frozen=True)
class Run:
    """One training run."""

    name: str
    seed: int
    steps: int
    changes: dict[str, Any] = field(default_factory=dict)
    """Leaves of the quick-start experiment and other values."""
    unknown_share: float = 0.0
    """Share of the training songs whose octave is not known: each sample of them is moved at random."""
    jitter: float = 0.0
    """Standard deviation in seconds of the noise on the onsets of the training labels."""
    missing: float = 0.0
    """Share of the notes that the training labels lack, drawn once for the whole data set."""
    songs: int = 0
    """Songs of the test that are scored; 0 is all."""
    hard: bool = False
    """Score the hard mixes too, as ``onset_f_hard``."""
    full_size: bool = False
    """Of the published size (``--model ptf_t5``), which takes a GPU; else the quick start's."""
    batch: int = 8
    """Segments of a step."""


def run_all(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, list[dict[str, float]]]]:
    """Each run in a process of one thread, ``jobs`` at a time; yields its songs' scores when it is done."""

    def start(run: Run) -> tuple[Run, list[dict[str, float]]]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        line = [sys.executable, __file__, json.dumps(asdict(run))]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"run {run.name}, seed {run.seed}:\n{done.stdout}\n{done.stderr}")
        return run, json.loads(done.stdout.splitlines()[-1])

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(start, runs)


def experiment_of(run: Run) -> Any:
    """The quick-start experiment with the run's changes."""
    import torch

    from amt.config import Experiment
    from amt.config.leaves import replace_leaves
    from amt.config.published_models import MODEL_LEAVES, get_published_model
    from amt.config.recipes import get_recipe
    from amt.training.trainer import fast_bf16_on_cpu

    recipe = dict(get_recipe("quickstart"))
    if run.full_size:
        recipe = {leaf: value for leaf, value in recipe.items() if not leaf.startswith(MODEL_LEAVES)}
        recipe |= {**get_published_model("ptf_t5"), **FULL_SIZE}
    on_gpu = run.full_size and torch.cuda.is_available()
    changes = {
        **recipe,
        "exp_id": run.name,
        "seed": run.seed,
        "trainer.max_steps": run.steps,
        "trainer.val_interval": run.steps,
        "trainer.devices": "1",
        "trainer.num_threads": 1,
        "trainer.precision": "bf16-mixed" if on_gpu or fast_bf16_on_cpu() else "32",
        "bsz.sub": run.batch,
        "bsz.local": run.batch,
        "data.validation_files": VALIDATION_SONGS,
        **run.changes,
    }
    return replace_leaves(Experiment(), changes)


def train_and_score(run: Run) -> list[dict[str, float]]:
    """Train in a temporary folder; the scores of each song, those of hard mixes after the others."""
    from amt.data.store import SongStore
    from amt.inference import load_transcriber
    from amt.notes import array_to_notes
    from amt.quickstart.scoring import voice_notes
    from amt.training.fit import run_training
    from amt.training.identity import RunDecision
    from amt.training.plan import RunPaths

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_view(DATA / STORE, folder / "data" / STORE, run)
        if run.unknown_share:
            move_octaves(run.seed)
        decision = RunDecision("scratch", None, "a benchmark", 0, False)
        status = run_training(experiment_of(run), decision, RunPaths(folder / "run", folder / "data"))
        if status:
            raise SystemExit(status)
        transcriber = load_transcriber(
            next((folder / "run").rglob("last.ckpt")), device="auto" if run.full_size else "cpu"
        )
    store = SongStore.open(DATA / STORE)

    def scored(split: str) -> list[dict[str, float]]:
        songs = [store.song(split, number) for number in range(run.songs or store.splits[split])]
        return [
            scores(
                voice_notes(array_to_notes(song.notes)),
                voice_notes(transcriber.transcribe(song.mix(), song.sample_rate).notes),
            )
            for song in songs
        ]

    found = scored("test_standard")
    if run.hard:
        found += [{HARD: song["onset_f"]} for song in scored("test_hard")]
    return found


def scores(reference: Sequence[Any], estimate: Sequence[Any]) -> dict[str, float]:
    """Onset F1 as it is, of pitch classes, within 25 ms; median error of the onsets; of the windows in which
    notes begin, the share without any in the estimate, and by how much the number of them is off, as a share
    of all notes."""
    from amt.evaluation import note_prf, repair_notes
    from amt.evaluation.pairing import Tolerances, pair_notes, pitches

    classes = [[note._replace(pitch=note.pitch % 12) for note in notes] for notes in (reference, estimate)]
    ref, est = repair_notes(reference), repair_notes(estimate)
    found = pair_notes(ref, est, pitches(ref), pitches(est), Tolerances(MATCH_SECONDS), with_offset=False)
    errors = np.abs(ref["onset"][found >= 0] - est["onset"][found[found >= 0]])
    values = {
        "onset_f": note_prf(reference, estimate).f,
        "chroma_f": note_prf(*classes).f,
        "onset_f_25ms": note_prf(reference, estimate, onset_tolerance=0.025).f,
        "onset_error_ms": 1000 * float(np.median(errors)) if len(errors) else float("nan"),
        **counts(ref["onset"], est["onset"]),
    }
    return {name: float(value) for name, value in values.items()}


def counts(reference: Any, estimate: Any) -> dict[str, float]:
    """``silent_windows`` and ``count_error`` of :func:`scores`, of onsets in seconds."""
    edges = np.arange(0.0, max([0.0, *reference, *estimate]) + 2 * WINDOW_SECONDS, WINDOW_SECONDS)
    true, found = (np.histogram(onsets, edges)[0] for onsets in (reference, estimate))
    return {
        "silent_windows": float(np.mean(found[true > 0] == 0)) if true.any() else float("nan"),
        "count_error": float(np.abs(found - true).sum() / max(true.sum(), 1)),
    }


def make_view(source: Path, target: Path, run: Run) -> None:
    """A store that shares the sound of ``source`` and has other labels of its training songs."""
    (target / "songs").mkdir(parents=True)
    (target / "index").mkdir()
    (target / "store.json").symlink_to(source / "store.json")
    rng = np.random.default_rng(2026)
    for file in sorted((source / "index").glob("*.npy")):
        index = np.load(file)
        training = file.stem == "train"
        if training:
            unknown = rng.permutation(len(index)) < round(run.unknown_share * len(index))
            index["octave_unknown"] = unknown
        for entry in index:
            song_id = entry["song_id"]
            place = target / "songs" / str(song_id)
            if not (training and (run.jitter or run.missing)):
                place.symlink_to(source / "songs" / str(song_id))
                continue
            place.mkdir()
            for part in (source / "songs" / str(song_id)).iterdir():
                if part.name != "notes.npy":
                    (place / part.name).symlink_to(part)
            notes = np.load(source / "songs" / str(song_id) / "notes.npy")
            if run.missing:
                notes = notes[rng.random(len(notes)) >= run.missing]
            notes["onset"] = np.maximum(notes["onset"] + rng.normal(0, run.jitter, len(notes)), 0)
            notes["offset"] = np.maximum(notes["offset"], notes["onset"] + 0.03)
            np.save(place / "notes.npy", notes[np.argsort(notes["onset"], kind="stable")])
            entry["num_notes"] = len(notes)
        np.save(target / "index" / file.name, index)


def move_octaves(seed: int) -> None:
    """From now on training samples of unknown octave have their labels moved by some octaves."""
    from amt.data.segments import Sample, SegmentMaker

    make = SegmentMaker.make

    def make_moved(maker: SegmentMaker, number: int) -> Sample:
        sample = make(maker, number)
        if not sample.octave_unknown:
            return sample
        ids = maker._tokenizer.token_range("pitch")
        is_pitch = (sample.labels >= ids.start) & (sample.labels < ids.stop)
        notes = sample.notes.copy()
        present = [*(sample.labels[is_pitch] - ids.start), *notes["pitch"].astype(int)]
        low, high = min(present, default=0), max(present, default=0)
        fitting = [shift for shift in OCTAVES if low + shift >= 0 and high + shift < len(ids)]
        shift = int(np.random.default_rng((seed, number)).choice(fitting))
        notes["pitch"] = notes["pitch"].astype(int) + shift
        labels = np.where(is_pitch, sample.labels + shift, sample.labels)
        return replace(sample, labels=labels, notes=notes)

    SegmentMaker.make = make_moved  # type: ignore[method-assign]


if __name__ == "__main__":
    print(json.dumps(train_and_score(Run(**json.loads(sys.argv[1])))))
