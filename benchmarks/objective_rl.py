"""Part c of ``docs/objective.md``: what REINFORCE adds to a converged model, against more cross-entropy.

``python benchmarks/objective_rl.py [--start CKPT | --start-minutes 10] [--minutes 3] [--seeds 0 1 2]
[--held-out 2027] [--lr 3e-4] [--stage OPTIONS] [--options OPTIONS] [--jitter SECONDS] [--missing SHARE]
[--jobs 2] [--out FILE]``; needs ``data/quickstart`` (``amt-prepare quickstart``).

From one start and with one learning rate and schedule, three runs per seed: with the stage and reward
``onset_f`` for so many minutes, with cross-entropy alone for the same time, and with cross-entropy alone for
as many steps as the first made. All runs take one thread each, ``--jobs`` of them at a time.

With ``--jitter`` the onsets of the training labels are off by noise of that standard deviation, with
``--missing`` they lack that share of the notes (0 to 1), for the start and for all runs, as annotations made
by hand may; scores are those of true and whole labels.

Scored is the voice's onset F1 of the hard mixes, whole songs, windows side by side, likeliest tokens. Beside
the 20 songs of the data set there are those of further data sets (``--held-out``: their seeds), whose tunes
the training split does not have; they are rendered in a minute. Each row is the mean over songs, songs
averaged over seeds; the difference to the first has a 95 % bootstrap interval over songs.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from objective_runs import Run, make_view

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data"
STORE = "quickstart"
SPLITS = ("validation_hard", "test_hard")
BATCH = 64
"""Windows decoded together."""
MEASURES = ("onset_f", "precision", "recall", "offset_f")
LOGGED = ("rl_time_share", "rl_reward", "rl_advantage_std", "rl_entropy", "rl_length")

COMMON = shlex.split(
    "--recipe quickstart -st auto -g 1 --threads 1 -bsz 8 8 -vit 1000000 --validation-files 1 -pr 32 "
    "-s cosine --final-cosine 1e-6 --overlap 0 --pitch-check 0 --save-top-k 0 "
    "--set trainer.log_every_n_steps=10"
)
"""Of all runs."""
TWO_PROCESSES = shlex.split("-st ddp -g 2 -bsz 4 4 --threads 1")
"""Of the start."""
DECODER_ALONE = shlex.split("--freeze encoder pre_encoder pre_decoder memory_norm frame_head")
STAGE = shlex.split(
    "--rl-enable true --rl-reward-type onset_f --rl-baseline group --rl-samples 16 --rl-weight 1 "
    "--rl-temperature 0.7"
)
WARMUP = "20"
RL, SAME_TIME, SAME_STEPS = "with REINFORCE", "cross-entropy, same time", "cross-entropy, same steps"


def train(name: str, options: Sequence[str], folder: Path, threads: int = 1, warmup: str = WARMUP) -> Path:
    """One run of ``train.py`` below ``folder``, on the data there if any; returns its last checkpoint."""
    data = folder / "data"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AMT_")}
    environment |= {
        "AMT_LOG_DIR": str(folder),
        "AMT_DATA_HOME": str(data if data.exists() else DATA),
        "OMP_NUM_THREADS": str(threads),
        "CUDA_VISIBLE_DEVICES": "",
    }
    if warmup:
        environment["AMT_WARMUP_STEPS"] = warmup
    line = [sys.executable, "-m", "amt.train", name, "-p", "rl", *options]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"run {name}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return folder / "rl" / name / "checkpoints" / "last.ckpt"


def train_start(options: argparse.Namespace) -> Path:
    """A quick-start run of ``--start-minutes`` in two processes; returns its last checkpoint."""
    from amt.training.trainer import fast_bf16_on_cpu

    line = ["--recipe", "quickstart", "--max-minutes", str(options.start_minutes), *TWO_PROCESSES]
    line += ["-pr", "bf16-mixed" if fast_bf16_on_cpu() else "32", *shlex.split(options.options)]
    return train("start", line, Path(options.work), warmup="")


def logged(checkpoint: Path) -> dict[str, float]:
    """Means over the run of what the stage logs."""
    with (checkpoint.parents[1] / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {name: [float(row[name]) for row in rows if row.get(name)] for name in LOGGED}
    return {name: float(np.mean(values)) for name, values in found.items() if values}


def steps_of(checkpoint: Path) -> int:
    """Steps a run has made."""
    from amt.model.checkpoint_file import read_checkpoint

    return int(read_checkpoint(checkpoint, mmap=True)["global_step"])


def held_out(seed: int, folder: Path) -> Path:
    """A data set of another seed, with next to no training songs; rendered unless it is there."""
    from amt.quickstart.build import build_quickstart

    place = folder / f"held-out-{seed}" / STORE
    if not (place / "store.json").exists():
        build_quickstart(place, minutes=0.1, seed=seed, processes=2)
    return place


def held_out_songs(stores: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """Name and song of the held-out songs whose tunes the training split does not have."""
    from amt.data.store import SongStore

    training = SongStore.open(DATA / STORE)
    known = {training.song("train", i).meta["tune"] for i in range(training.splits["train"])}
    for number, place in enumerate(stores):
        store = SongStore.open(place)
        for split in SPLITS:
            for i in range(store.splits[split]):
                song = store.song(split, i)
                if song.meta["tune"] not in known:
                    yield f"{number}/{song.song_id}", song


def windows_of(song: Any, segment_samples: int) -> Any:
    """(W, 1, S) tensor of the song's windows, side by side."""
    import torch

    from amt.audio.windows import cut_windows

    return torch.from_numpy(cut_windows(np.asarray(song.mix(), dtype=np.float32), segment_samples))[:, None]


def score_rows(rows: Sequence[Any], song: Any, tokenizer: Any) -> dict[str, float]:
    """The measures of a song whose windows were decoded as these rows of tokens."""
    import torch

    from amt.evaluation import note_prf
    from amt.notes import array_to_notes
    from amt.quickstart.scoring import voice_notes

    ids = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=tokenizer.pad_id)
    estimate = voice_notes(tokenizer.decode(ids[:, None].numpy()).notes)
    reference = voice_notes(array_to_notes(song.notes))
    onset = note_prf(reference, estimate)
    return {
        "onset_f": onset.f,
        "precision": onset.precision,
        "recall": onset.recall,
        "offset_f": note_prf(reference, estimate, with_offset=True).f,
    }


def score(checkpoint: Path, stores: Sequence[Path]) -> dict[str, dict[str, float]]:
    """The measures of each held-out song."""
    import torch

    from amt.inference import load_transcriber

    torch.set_num_threads(1)
    transcriber = load_transcriber(checkpoint, device="cpu")
    model, tokenizer = transcriber.model.eval(), transcriber.tokenizer
    songs: dict[str, dict[str, float]] = {}
    for name, song in held_out_songs(stores):
        parts = windows_of(song, tokenizer.segment_samples).split(BATCH)
        rows = [row for part in parts for row in model.generate(part)[:, 0]]
        songs[name] = score_rows(rows, song, tokenizer)
    return songs


def score_apart(checkpoint: Path, stores: Sequence[Path]) -> dict[str, dict[str, float]]:
    """:func:`score` in a process of its own, so that several work at a time."""
    line = [sys.executable, __file__, "--score", str(checkpoint), *map(str, stores)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"scoring {checkpoint}:\n{done.stderr[-2000:]}")
    songs: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return songs


def one_seed(
    seed: int, start: Path, options: argparse.Namespace, stores: Sequence[Path], pool: ThreadPoolExecutor
) -> dict[str, Any]:
    """Futures of the runs of a seed, in the order they are to be started."""
    folder = Path(options.work)
    shared = [
        *COMMON,
        *shlex.split(options.options),
        "-lr",
        str(options.lr),
        "--init-ckpt",
        str(start),
        "--seed",
        str(seed),
    ]
    if not options.whole_network:
        shared += DECODER_ALONE
    minutes = ["--max-minutes", str(options.minutes)]

    def run(kind: str, extra: Sequence[str]) -> dict[str, Any]:
        checkpoint = train(f"{kind.replace(',', '').replace(' ', '-')}-{seed}", [*shared, *extra], folder)
        songs = score_apart(checkpoint, stores)
        return {"songs": songs, "steps": steps_of(checkpoint), "logged": logged(checkpoint)}

    def with_stage() -> tuple[dict[str, Any], dict[str, Any]]:
        first = run(RL, [*minutes, *STAGE, *shlex.split(options.stage)])
        return first, run(SAME_STEPS, ["-it", str(first["steps"])])

    return {RL: pool.submit(with_stage), SAME_TIME: pool.submit(run, SAME_TIME, minutes)}


def song_means(runs: Sequence[dict[str, Any]], measure: str) -> list[float]:
    """Of each song, averaged over seeds."""
    names = runs[0]["songs"]
    return [float(np.mean([run["songs"][name][measure] for run in runs])) for name in names]


def table(results: dict[str, list[dict[str, Any]]], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each way of training; the difference of REINFORCE to it with its interval."""
    from amt.evaluation.bootstrap import paired_bootstrap

    rows: list[dict[str, Any]] = []
    for name, runs in results.items():
        row: dict[str, Any] = {"name": name, "steps": [run["steps"] for run in runs]}
        row |= {measure: float(np.nanmean(song_means(runs, measure))) for measure in MEASURES}
        if name != RL:
            found = paired_bootstrap(
                song_means(runs, "onset_f"), song_means(results[RL], "onset_f"), num_resamples=10_000
            )
            row["gain"], row["interval"] = found.difference, found.interval
            row["num_songs"] = found.num_songs
            if len(runs) == len(seeds):
                row["gain_by_seed"] = [
                    float(np.nanmean(np.subtract(song_means([rl], "onset_f"), song_means([run], "onset_f"))))
                    for rl, run in zip(results[RL], runs, strict=True)
                ]
        rows.append(row)
    return rows


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    print(f"\n{'':28s}{'steps':>8s}{'onset F1':>10s}{'P':>7s}{'R':>7s}   REINFORCE is better by")
    for row in rows:
        line = f"{row['name']:28s}{np.mean(row['steps']):8.0f}{row['onset_f']:10.3f}"
        line += f"{row['precision']:7.3f}{row['recall']:7.3f}"
        if "gain" in row:
            low, high = row["interval"]
            line += f"   {row['gain']:+.3f} ({low:+.3f} to {high:+.3f}, {row['num_songs']} songs)"
        if "gain_by_seed" in row:
            line += "   by seed " + " ".join(f"{value:+.3f}" for value in row["gain_by_seed"])
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--start", type=Path, help="checkpoint of a converged quick-start run")
    parser.add_argument("--start-minutes", type=float, default=10.0, help="train it so long without --start")
    parser.add_argument("--minutes", type=float, default=3.0, help="of each run")
    parser.add_argument("--lr", type=float, default=3e-4, help="base rate of all runs")
    parser.add_argument("--stage", default="", help="further options of the runs with REINFORCE, quoted")
    parser.add_argument("--options", default="", help="further options of all runs, the start too, quoted")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--held-out", type=int, nargs="*", default=[2027], metavar="SEED")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--jitter", type=float, default=0.0, help="noise on the onsets of training labels")
    parser.add_argument(
        "--missing", type=float, default=0.0, help="share of the notes that training labels lack"
    )
    parser.add_argument("--whole-network", action="store_true", help="train the encoder too, in all runs")
    parser.add_argument("--work", type=Path, help="folder for runs and data; default one that is removed")
    parser.add_argument("--out", type=Path, help="JSON file")
    parser.add_argument("--score", type=Path, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.score:
        print(json.dumps(score(options.score[0], options.score[1:])))
        return
    with tempfile.TemporaryDirectory() as temporary:
        options.work = (options.work or Path(temporary)).resolve()
        stores = [DATA / STORE, *(held_out(seed, options.work) for seed in options.held_out)]
        if options.jitter or options.missing:
            wrong = Run("wrong labels", 0, 0, jitter=options.jitter, missing=options.missing)
            make_view(DATA / STORE, options.work / "data" / STORE, wrong)
        start = options.start
        if start is None:
            print(f"the start is trained for {options.start_minutes:g} minutes", flush=True)
            start = train_start(options)
        minutes = len(options.seeds) * 2.5 * (options.minutes + 0.7) / options.jobs
        print(f"{3 * len(options.seeds)} runs, about {minutes:.0f} minutes", flush=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            before = score_apart(start, stores)
            futures = [one_seed(seed, start.resolve(), options, stores, pool) for seed in options.seeds]
            stages = [future[RL].result() for future in futures]
            same_time = [future[SAME_TIME].result() for future in futures]
    results = {
        "start": [{"songs": before, "steps": 0, "logged": {}}],
        SAME_TIME: same_time,
        SAME_STEPS: [second for _, second in stages],
        RL: [first for first, _ in stages],
    }
    rows = table(results, options.seeds)
    show(rows)
    means = {name: np.mean([run["logged"].get(name, np.nan) for run in results[RL]]) for name in LOGGED}
    print(
        "the stage, means over its runs: " + ", ".join(f"{name} {value:.2f}" for name, value in means.items())
    )
    if options.out:
        plain = {
            "minutes": options.minutes,
            "jitter": options.jitter,
            "missing": options.missing,
            "seeds": options.seeds,
            "held_out": options.held_out,
        }
        plain |= {
            "lr": options.lr,
            "options": [
                *COMMON,
                *shlex.split(options.options),
                *([] if options.whole_network else DECODER_ALONE),
            ],
            "stage": [*STAGE, *shlex.split(options.stage)],
        }
        plain |= {"rows": rows, "runs": results}
        options.out.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
