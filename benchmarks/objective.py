"""What the terms of the objective do, and what they cost, on the quick-start data.

``python benchmarks/objective.py [--parts a b d e cost] [--steps N] [--seeds 0 1 2] [--songs N] [--jobs 2]
[--arms NAME ...] [--tables N ...] [--hard] [--batch N] [--full-size] [--out FILE]``; needs the quick-start
data (``amt-prepare quickstart``). The reinforcement stage is part c, in ``objective_rl.py``.

a: labels of 90 % of the training songs in random octaves: cross-entropy alone, with octave or chroma term,
with the octaves hidden; labels of all songs in random octaves, pitch classes alone are scored; the first with
the boundary term of the recipe.
b: boundary term, with true labels and with onsets that are off by 20 ms.
d: each of the aids of the quick start taken away; with ``--full-size`` at the published size.
e: blank and onset term, with true labels and with labels that lack half of the notes.
cost: time of the five terms in a training step.

Each row is the mean over songs of a score, songs averaged over seeds, and the difference to the first row
with a 95 % bootstrap interval over songs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from objective_runs import DATA, HARD, STORE, Run, experiment_of, run_all

UNKNOWN_SHARE = 0.9
JITTER = 0.02
MISSING = 0.5
SECONDS_PER_STEP = 0.12
"""Of a quick-start step on one thread of an ordinary core."""
SECONDS_PER_SONG = 2.0
TERM_WEIGHTS = {
    f"objective.{name}_weight": 0.5 for name in ("octave", "chroma", "blank", "onset", "boundary")
}


@dataclass(frozen=True)
class Part:
    """Arms that are compared with the first one."""

    title: str
    measures: tuple[str, ...]
    arms: dict[str, dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of each :class:`Run`."""


def _true_and_wrong(
    measures: tuple[str, ...], arms: dict[str, dict[str, Any]], wrong: str, settings: dict[str, Any]
) -> list[Part]:
    """The same arms with true labels, and with labels that are wrong in the way ``wrong`` says."""
    return [Part("true labels", measures, arms), Part(wrong, measures, arms, settings)]


_HARD = {"objective.boundary_weight": 0.0}
_SOFT = {**_HARD, "objective.soft_shift_ms": 20.0}
_OCTAVE = {"objective.octave_weight": 0.25, "objective.octave_samples": "unknown"}
"""A quarter of a melody's tokens are pitches: with this weight the term is as strong as they are in the
cross-entropy."""
_CHROMA = {"objective.chroma_weight": 0.1}
_CHROMA_ALONE = {"objective.chroma_weight": 0.25}
_HIDDEN = {"objective.hide_octaves": True}
_BOUNDARY = {
    "cross-entropy": _HARD,
    "and boundary 1, width 2": {"objective.boundary_weight": 1.0, "objective.boundary_width": 2},
    "and boundary 1, width 4": {"objective.boundary_weight": 1.0, "objective.boundary_width": 4},
    "soft shift 20 ms": _SOFT,
}
_COUNTS = {
    "cross-entropy": {},
    "and blank 0.1": {"objective.blank_weight": 0.1},
    "and blank 1": {"objective.blank_weight": 1.0},
    "and onset 0.1": {"objective.onset_weight": 0.1},
    "and onset 1": {"objective.onset_weight": 1.0},
}
"""Beside the boundary term and the frame head of the quick start."""
PARTS = {
    "a": [
        Part(
            f"labels of {UNKNOWN_SHARE:.0%} of the songs in random octaves",
            ("onset_f", "chroma_f"),
            {
                "cross-entropy": _SOFT,
                "and octave": {**_SOFT, **_OCTAVE},
                "and chroma": {**_SOFT, **_CHROMA},
                "octave, octaves hidden": {**_SOFT, **_OCTAVE, **_HIDDEN},
                "both, octaves hidden": {**_SOFT, **_OCTAVE, **_CHROMA, **_HIDDEN},
            },
            {"unknown_share": UNKNOWN_SHARE},
        ),
        Part(
            "labels of all songs in random octaves",
            ("chroma_f",),
            {
                "cross-entropy": _SOFT,
                "and chroma": {**_SOFT, **_CHROMA_ALONE},
                "chroma, octaves hidden": {**_SOFT, **_CHROMA_ALONE, **_HIDDEN},
            },
            {"unknown_share": 1.0},
        ),
        Part(
            f"labels of {UNKNOWN_SHARE:.0%} of the songs in random octaves, with the boundary term",
            ("onset_f", "chroma_f", "onset_f_25ms"),
            {"cross-entropy": {}, "octave, octaves hidden": {**_OCTAVE, **_HIDDEN}},
            {"unknown_share": UNKNOWN_SHARE},
        ),
    ],
    "b": _true_and_wrong(
        ("onset_error_ms", "onset_f_25ms", "onset_f"),
        _BOUNDARY,
        f"onsets of the labels off by {1000 * JITTER:.0f} ms (standard deviation)",
        {"jitter": JITTER},
    ),
    "d": [
        Part(
            "aids of the quick start",
            ("onset_f",),
            {
                "all": {},
                "no frame head": {
                    "model.frame_groups": (),
                    "objective.frame_weight": 0.0,
                    "inference.pitch_check": 0.0,
                },
                "no memory positions": {
                    "model.memory_positions": "none",
                    "model.shift_embedding_init": "normal",
                },
                "shift embeddings from noise": {"model.shift_embedding_init": "normal"},
                "no boundary term": _HARD,
                "soft shift labels in its place": _SOFT,
                "mel front end": {
                    "audio.codec": "melspec",
                    "audio.n_mels": 216,
                    "model.pre_encoder.harmonics": (),
                },
            },
        )
    ],
    "e": _true_and_wrong(
        ("onset_f", "silent_windows", "count_error"),
        _COUNTS,
        f"labels that lack {MISSING:.0%} of the notes",
        {"missing": MISSING},
    ),
}


_MEMORY = {"model.memory_positions": "sinusoid", "model.memory_norm": True}
_SHIFTS = {"model.shift_embedding_init": "sinusoid"}
_HEAD = {
    "model.frame_groups": ("voice",),
    "objective.frame_weight": 1.0,
    "inference.pitch_check": 1.0,
}
_EDGES = {"objective.boundary_weight": 1.0, "objective.boundary_width": 2}
_AIDS = {**_MEMORY, **_SHIFTS, **_HEAD, **_EDGES}
FULL_SIZE = Part(
    "aids of the quick start at the published size",
    ("onset_f",),
    {
        "all": _AIDS,
        "none, as published": {},
        "no frame head": {**_MEMORY, **_SHIFTS, **_EDGES},
        "no memory positions": {**_HEAD, **_EDGES},
        "shift embeddings from noise": {**_MEMORY, **_HEAD, **_EDGES},
        "no boundary term": {**_MEMORY, **_SHIFTS, **_HEAD},
        "log-frequency bins": {**_AIDS, "audio.codec": "logspec"},
    },
    {"full_size": True},
)
"""Part d with ``--full-size``."""


def difference_row(scored: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Scores (seeds, songs) of an arm and of the first one: means, difference, interval, one per seed."""
    from amt.evaluation import paired_bootstrap

    arm, first = np.array(scored), np.array(base)
    paired = paired_bootstrap(_means(first.T), _means(arm.T))
    return {
        "mean": mean_of(arm.ravel()),
        "difference": paired.difference,
        "interval": list(paired.interval),
        "of_seeds": [mean - other for mean, other in zip(_means(arm), _means(first), strict=True)],
    }


def mean_of(values: Sequence[float]) -> float:
    """The mean of what is no NaN; NaN without any."""
    known = [float(value) for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [mean_of(row) for row in rows]


def number_text(value: float, style: str = "+.3f") -> str:
    """A number in a table; ``-`` for NaN."""
    return "-" if np.isnan(value) else format(value, style)


def plain(value: Any) -> Any:
    """Values for a JSON file, which has no NaN: null."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def time_text(seconds: float) -> str:
    """About how long: seconds below a minute, else whole minutes."""
    if seconds < 59.5:
        return f"{max(1.0, seconds):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} minute{'s' if minutes != 1 else ''}"


def scores_of(measure: str, songs: Sequence[dict[str, float]]) -> list[float]:
    """One score of all songs that have it."""
    return [song[measure] for song in songs if measure in song]


def measure_part(part: Part, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train and score every arm with every seed; the table as plain values."""
    runs = [
        Run(
            name,
            seed,
            arguments.steps,
            changes,
            songs=arguments.songs,
            hard=arguments.hard,
            batch=arguments.batch,
            **part.settings,
        )
        for seed in arguments.seeds
        for name, changes in part.arms.items()
        if name in (arguments.arms or part.arms)
    ]
    measures = [*part.measures, *([HARD] if arguments.hard else [])]
    found: dict[str, list[list[dict[str, float]]]] = {run.name: [] for run in runs}
    for run, songs in run_all(runs, arguments.jobs):
        found[run.name].append(songs)
        means = "  ".join(
            f"{name} {number_text(mean_of(scores_of(name, songs)), '.3f')}" for name in measures
        )
        print(f"  seed {run.seed}, {run.name}: {means}", flush=True)
    first = runs[0].name
    return {
        name: {
            measure: difference_row(
                [scores_of(measure, songs) for songs in seeds],
                [scores_of(measure, songs) for songs in found[first]],
            )
            for measure in measures
        }
        for name, seeds in found.items()
    }


def show(title: str, rows: dict[str, Any]) -> None:
    """Print the table of a part."""
    print(f"\n{title}")
    for name, measures in rows.items():
        for measure, row in measures.items():
            seeds = " ".join(number_text(value) for value in row["of_seeds"])
            difference = number_text(row["difference"])
            if difference != "-":
                difference += f" [{', '.join(number_text(value) for value in row['interval'])}]"
            print(
                f"  {name:30s} {measure:15s} {number_text(row['mean'], '.3f'):>8s}  difference {difference}  "
                f"seeds {seeds}",
                flush=True,
            )


def measure_cost(repeats: int = 7) -> dict[str, float]:
    """CPU seconds of a quick-start training step with and without the five terms, median."""
    import torch

    from amt.data.module import TranscriptionData
    from amt.tokenizer import NoteTokenizer
    from amt.training.module import TranscriptionModule

    torch.set_num_threads(1)
    plain = experiment_of(Run("cost", 0, 100, _HARD))
    tokenizer = NoteTokenizer.from_experiment(plain)
    batch = next(iter(TranscriptionData(plain, tokenizer, DATA).train_dataloader()))
    modules = {
        "plain": TranscriptionModule(plain, tokenizer),
        "terms": TranscriptionModule(experiment_of(Run("cost", 0, 100, TERM_WEIGHTS)), tokenizer),
    }
    seconds: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(repeats + 1):
        for name, module in modules.items():
            module.train()
            start = time.process_time()
            module.objective(module._forward(batch), 0)[0].backward()
            seconds[name].append(time.process_time() - start)
            module.zero_grad()
    plainly, with_terms = (statistics.median(seconds[name][1:]) for name in ("plain", "terms"))
    return {"step": plainly, "step with terms": with_terms, "share": with_terms / plainly - 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = [*PARTS, "cost"]
    parser.add_argument(
        "--parts", nargs="+", default=names, choices=names, help=f"what is run ({' '.join(names)})"
    )
    parser.add_argument("--steps", type=int, default=1200, help="training steps of each run (%(default)s)")
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[0, 1, 2], help="one run of each row for each (0 1 2)"
    )
    parser.add_argument(
        "--songs", type=int, default=0, help="score the first N songs; 0 is all 14 (%(default)s)"
    )
    parser.add_argument(
        "--tables",
        type=int,
        nargs="+",
        default=[1, 2, 3],
        choices=[1, 2, 3],
        help="only these tables of each part, counted from 1 (1 2 3)",
    )
    parser.add_argument("--hard", action="store_true", help="score the hard mixes too")
    parser.add_argument(
        "--jobs", type=int, default=2, choices=[1, 2], help="runs at once, one thread each (%(default)s)"
    )
    parser.add_argument("--batch", type=int, default=8, help="segments of a step (%(default)s)")
    parser.add_argument("--arms", nargs="+", default=[], help="only these rows, the first is the base (all)")
    parser.add_argument(
        "--full-size", action="store_true", help="part d of the published size: 2,000 steps take a GPU"
    )
    parser.add_argument("--out", type=Path, help="write the tables as JSON (nowhere)")
    arguments = parser.parse_args()
    parts = PARTS
    if arguments.full_size:
        arguments.parts, parts = ["d"], {"d": [FULL_SIZE]}
    chosen = {
        part: [table for number, table in enumerate(parts.get(part, []), 1) if number in arguments.tables]
        for part in arguments.parts
    }
    known = [name for tables in chosen.values() for table in tables for name in table.arms]
    for name in arguments.arms:
        if name not in known:
            there = ", ".join(f'"{row}"' for row in dict.fromkeys(known))
            parser.error(f'--arms "{name}": no row of these parts; there are {there}')
    if not (DATA / STORE).exists():
        parser.error(f"{DATA / STORE} is missing: run amt-prepare quickstart")
    count = len(arguments.seeds) * (sum(name in (arguments.arms or known) for name in known))
    scored = (arguments.songs or 14) * (2 if arguments.hard else 1)
    each = arguments.steps * SECONDS_PER_STEP + scored * SECONDS_PER_SONG
    wait = time_text(count * each / arguments.jobs)
    about = "" if arguments.full_size else f", about {wait} on quiet cores"
    if count:
        print(f"{count} run{'s' if count > 1 else ''} of {arguments.steps} steps{about}", flush=True)
    result: dict[str, Any] = {"steps": arguments.steps, "seeds": arguments.seeds, "batch": arguments.batch}
    for name, tables in chosen.items():
        if name == "cost":
            result["cost"] = cost = measure_cost()
            print(f"\nthe five terms: {cost['share']:+.1%} of the CPU time of a step ({cost['step']:.3f} s)")
            continue
        for part in tables:
            if arguments.arms and not set(arguments.arms) & set(part.arms):
                continue
            rows = measure_part(part, arguments)
            result.setdefault(name, {})[part.title] = rows
            show(f"{name}: {part.title}", rows)
    if arguments.out is not None:
        arguments.out.write_text(
            json.dumps(plain(result), indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
