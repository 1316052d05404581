"""The main job on a fresh machine: data, training, transcription of a held-out song, scores, report."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..config.environment import default_root
from ..config.names import counted
from ..data.store import SongStore
from ..inference.files import atomic_path
from ..inference.piano_roll import draw_piano_roll
from ..inference.render import render_notes, write_wav
from ..inference.transcriber import SongTranscriber, load_transcriber, untrained_transcriber
from ..notes import array_to_notes, write_midi
from ..reports.page import Example
from .build import build_quickstart
from .report import QuickstartResult, read_metrics, write_report
from .scoring import SplitScore, score_random, score_song, score_split, voice_notes, write_scores

TEST_SPLITS = ("test_standard", "test_hard")
STORE_NAME = "quickstart"
PINNED = Path(__file__).with_name("pinned.json")
"""Content hashes of the test splits of the default data set."""


@dataclass(frozen=True)
class QuickstartPaths:
    """Where a quick-start run reads and writes."""

    data_home: Path
    run_folder: Path
    """Folder of the training run."""
    out: Path
    """Folder of the results."""


def ensure_data(data_home: Path, say: Callable[[str], None]) -> SongStore:
    """Open the quick-start store, building it first when it is not there."""
    place = data_home / STORE_NAME
    if (place / "store.json").exists():
        say(f"data: {place} is there already")
    else:
        build_quickstart(place)
    return SongStore.open(place)


def data_note(store: SongStore) -> str:
    """Whether the test songs are byte for byte those the published figures were measured on."""
    pinned: dict[str, str] = json.loads(PINNED.read_text(encoding="utf-8"))
    differing = [split for split in TEST_SPLITS if store.content_hash(split) != pinned[split]]
    if not differing:
        return "test songs are those of docs/results.md (hashes agree)"
    return (
        f"the songs of {' and '.join(differing)} are not byte for byte those of docs/results.md (other "
        "versions of libraries, or an instrument that the synthesizer does not play the same twice): expect "
        "small differences of score"
    )


def score_systems(
    trained: SongTranscriber, store: SongStore, say: Callable[[str], None]
) -> dict[str, dict[str, SplitScore]]:
    """Voice scores of the trained model, the same model untrained, and random notes, on the test splits."""
    untrained = untrained_transcriber(trained.experiment, seed=trained.experiment.seed, device="cpu")
    scores: dict[str, dict[str, SplitScore]] = {"trained": {}, "untrained": {}, "random": {}}
    for split in TEST_SPLITS:
        say(f"scoring {split}: {counted(store.splits[split], 'song')}")
        scores["trained"][split] = score_split(trained, store, split)
        scores["untrained"][split] = score_split(untrained, store, split)
        scores["random"][split] = score_random(store, split)
    return scores


def make_example(
    transcriber: SongTranscriber, store: SongStore, split: str, number: int, out: Path
) -> Example:
    """Transcribe one held-out song; writes its WAV, MIDI, reference MIDI, PNG and rendered WAV to ``out``."""
    song = store.song(split, number)
    audio = song.mix()
    name = song.song_id
    estimate = transcriber.transcribe(audio, song.sample_rate).notes
    reference = voice_notes(array_to_notes(song.notes))
    score = score_song(song.song_id, reference, estimate)
    write_wav(out / f"{name}.wav", audio, song.sample_rate)
    write_midi(estimate, out / f"{name}.mid")
    write_midi(reference, out / f"{name}-reference.mid")
    write_wav(out / f"{name}-transcription.wav", render_notes(estimate, 16000), 16000)
    draw_piano_roll(
        out / f"{name}.png",
        estimate,
        reference,
        duration=len(audio) / song.sample_rate,
        title=f"{name} (synthetic): onset F1 {score.onset_f:.2f}",
    )
    return Example(
        title=name,
        audio=audio,
        sample_rate=song.sample_rate,
        estimate=estimate,
        reference=reference,
        onset_f=score.onset_f,
        offset_f=score.offset_f,
    )


def print_table(scores: dict[str, dict[str, SplitScore]], say: Callable[[str], None]) -> None:
    """The headline: voice onset F1 of each system on each test split."""
    say("")
    say("voice onset F1 (50 ms, 50 cents), held-out tunes, synthetic data")
    for split in TEST_SPLITS:
        first = scores["trained"][split]
        say(f"  {split}: {counted(first.num_songs, 'song')}, {counted(first.num_notes, 'note')}")
        for system, row in scores.items():
            score = row[split]
            low, high = score.interval
            say(
                f"    {system:10s} {score.onset_f:.3f}   95 % interval {low:.3f} to {high:.3f}   "
                f"P {score.precision:.3f}  R {score.recall:.3f}  with offsets {score.offset_f:.3f}"
            )


def run_quickstart(
    paths: QuickstartPaths,
    train: Callable[[], int],
    *,
    minutes: float,
    seed: int,
    say: Callable[[str], None] = print,
) -> int:
    """Data, training, transcription, scores and report; returns an exit status.

    Args:
        paths: where everything lies.
        train: runs the training to its end and returns its exit status.
        minutes: time budget of the training, for the record.
        seed: of the run, for the record.
        say: prints a line.
    """
    started = time.monotonic()
    store = ensure_data(paths.data_home, say)
    note = data_note(store)
    say(f"data: {counted(sum(store.splits.values()), 'song')}; {note}")
    status = train()
    if status != 0:
        return status
    checkpoint = paths.run_folder / "checkpoints" / "last.ckpt"
    paths.out.mkdir(parents=True, exist_ok=True)
    kept = paths.out / "model.ckpt"
    with atomic_path(kept) as temporary:
        shutil.copyfile(checkpoint, temporary)
    trained = load_transcriber(kept, device="cpu")
    scores = score_systems(trained, store, say)
    examples = [make_example(trained, store, split, 0, paths.out) for split in TEST_SPLITS]
    parameters = sum(weight.numel() for weight in trained.model.parameters())
    facts = {
        "minutes": minutes,
        "seed": seed,
        "parameters": parameters,
        "data": note,
        "test_hashes": {split: store.content_hash(split) for split in TEST_SPLITS},
        "checkpoint_sha256": hashlib.sha256(kept.read_bytes()).hexdigest(),
        "all_seconds": round(time.monotonic() - started, 1),
    }
    write_scores(paths.out / "metrics.json", scores, facts)
    shown = {
        "model": f"{parameters:,} parameters, task {trained.experiment.task}",
        "training": f"{minutes:g} minutes on CPU, seed {seed}",
        "data": f"synthetic; {note}",
    }
    write_report(
        paths.out / "report.html",
        QuickstartResult(scores, read_metrics(paths.run_folder / "metrics.csv"), examples, shown),
    )
    print_table(scores, say)
    print_places(kept, say)
    return 0


def print_places(model: Path, say: Callable[[str], None]) -> None:
    """Where the results lie, and the commands one wants next."""
    say("")
    say(f"model      {model} (the last state of the run)")
    say(f"report     {model.parent / 'report.html'}")
    say(f"MIDI, PNG  {model.parent}")
    say("")
    say("next, with a song of your own, or in the browser:")
    for line in next_commands(model, default_root()):
        say(f"  {line}")


def next_commands(model: Path, root: Path) -> list[str]:
    """How the model is used, as commands for the working folder.

    Args:
        model: the checkpoint.
        root: of the checkout, as :func:`~..config.environment.default_root` gives it.
    """
    here = Path.cwd()

    def shown(path: Path) -> str:
        return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))

    python, file = shown(Path(sys.executable)), shown(model)
    checkout = here == root and (root / "src" / "predict.py").is_file()
    of_make = checkout and model == root / "quickstart" / "model.ckpt"
    return [
        f"{python} {'src/predict.py' if checkout else '-m amt.predict'} {file} SONG.wav",
        "make serve" if of_make else f"{python} -m amt.serve {file}",
    ]
