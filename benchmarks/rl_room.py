"""How much the REINFORCE stage could win at most: the best of many draws, chosen with the reference.

``python benchmarks/rl_room.py [MODEL] [--samples 16] [--temperature 0.7] [--held-out SEED ...]``; needs the
quick-start data and a model (default: the one ``make quickstart`` left). ``--store FOLDER --split SPLIT``
takes the songs of any prepared data set instead, for a model that writes the voice in one channel.

Of each window of the songs of ``objective_rl.py`` the likeliest tokens and so many draws are decoded and
rewarded with ``onset_f``. The best of them, chosen with the reference, is a bound for what making some of
them likelier can reach. Nearer to what a network can learn that hears no better than before is the sequence
most like all others (minimum Bayes risk), which has the best expected score under the network's own beliefs.

The last line counts the notes that the likeliest tokens miss, and how many of them begin behind the last one
written in their window: a network that learnt from labels with gaps stops too soon.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from objective_rl import BATCH, DATA, ROOT, STORE, held_out, held_out_songs, score_rows, windows_of

from amt.data.store import SongStore
from amt.evaluation.matching import ONSET_TOLERANCE, match_notes
from amt.inference import load_transcriber
from amt.model.decoder import DecoderWeights
from amt.notes import array_to_notes
from amt.quickstart.scoring import voice_notes
from amt.rl.reward import Reward
from amt.rl.rollout import roll_out


@dataclass
class Missed:
    """Notes of the songs, those without an estimate within 50 ms, and those of them behind the last one."""

    notes: int = 0
    missed: int = 0
    behind: int = 0

    def count(self, rows: Sequence[Any], song: Any, tokenizer: Any) -> None:
        """Add a song whose windows were decoded as these rows of tokens."""
        length = tokenizer.segment_samples / song.sample_rate
        reference = voice_notes(array_to_notes(song.notes))
        for number, row in enumerate(rows):
            begin = number * length
            written = voice_notes(tokenizer.decode(row[None, None].numpy()).notes)
            last = max((note.onset for note in written), default=-1.0)
            own = [note for note in reference if 0 <= note.onset - begin < length]
            onsets = np.array([note.onset - begin for note in own])
            found = match_notes(
                np.array([note.pitch for note in own], dtype=np.int64),
                onsets,
                onsets,
                np.array([note.pitch for note in written], dtype=np.int64),
                np.array([note.onset for note in written]),
                np.array([note.onset for note in written]),
                offset_ratio=None,
            )
            self.notes += len(own)
            self.missed += int((found < 0).sum())
            self.behind += int((onsets[found < 0] > last + ONSET_TOLERANCE).sum())


def songs_of(store: Path, split: str) -> Iterator[Any]:
    """The songs of a split of a prepared data set."""
    opened = SongStore.open(store)
    if split not in opened.splits:
        raise SystemExit(f"--split {split}: {store} has {', '.join(opened.splits)}")
    yield from (opened.song(split, i) for i in range(opened.splits[split]))


def room(
    checkpoint: Path, songs: Iterable[Any], num_samples: int, temperature: float
) -> tuple[dict[str, tuple[float, float]], Missed]:
    """Mean reward of the windows and mean onset F1 of the songs, by the way tokens are chosen; and what the
    likeliest tokens miss."""
    transcriber = load_transcriber(checkpoint, device="cpu")
    model, tokenizer = transcriber.model.eval(), transcriber.tokenizer
    if tokenizer.num_channels != 1:
        raise SystemExit(
            f"{checkpoint}: its task {tokenizer.task.name} writes {tokenizer.num_channels} channels; this "
            "command takes models that write one, such as those of the quick start"
        )
    missed = Missed()
    reward = Reward("onset_f", tokenizer)
    likeliest = model.decoding_options(tokenizer.sequence_length)
    weights = DecoderWeights(model.decoder)
    found: dict[str, list[tuple[float, float]]] = {}
    for song in songs:
        windows = windows_of(song, tokenizer.segment_samples)
        encoded = tokenizer.encode(voice_notes(array_to_notes(song.notes)), num_windows=len(windows))[
            :, 0
        ].tolist()
        labels = [row[: row.index(tokenizer.eos_id) + 1] for row in encoded]
        with torch.inference_mode():
            memory = torch.cat([model.encode(part).memory for part in windows.split(BATCH)])
            options = [replace(likeliest, temperature=temperature, seed=i) for i in range(num_samples)]
            tries = [roll_out(weights, memory, item) for item in (likeliest, *options)]
        missed.count(tries[0].ids, song, tokenizer)
        worth = np.array([reward(item.rows(), labels) for item in tries])
        best = worth.argmax(0)
        alike = np.array(
            [likeness(draws, reward) for draws in zip(*(item.rows() for item in tries), strict=True)]
        )
        for name, chosen in (
            ("likeliest tokens", np.zeros_like(best)),
            ("one draw", np.ones_like(best)),
            (f"most like the other {num_samples}", alike),
            (f"best of these and {num_samples} draws", best),
        ):
            rows = [tries[which].ids[i] for i, which in enumerate(chosen)]
            mean = float(worth[chosen, np.arange(len(best))].mean())
            found.setdefault(name, []).append((mean, score_rows(rows, song, tokenizer)["onset_f"]))
    table = {
        name: (float(np.mean([a for a, _ in rows])), float(np.nanmean([b for _, b in rows])))
        for name, rows in found.items()
    }
    return table, missed


def likeness(draws: Sequence[list[int]], reward: Reward) -> int:
    """Number of the sequence with the highest mean reward when the others are the references."""
    count = len(draws)
    pairs = [(draw, other) for draw in draws for other in draws]
    worth = np.array(reward([a for a, _ in pairs], [b for _, b in pairs])).reshape(count, count)
    return int(worth.mean(1).argmax())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, nargs="?", default=ROOT / "quickstart" / "model.ckpt")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=0.7)
    songs_from = parser.add_mutually_exclusive_group()
    songs_from.add_argument(
        "--held-out", type=int, nargs="*", default=[], metavar="SEED", help="as objective_rl.py"
    )
    songs_from.add_argument("--store", type=Path, metavar="FOLDER", help="a prepared data set instead")
    parser.add_argument("--split", default="validation", help="of --store")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        stores = [DATA / STORE, *(held_out(seed, Path(folder)) for seed in options.held_out)]
        songs = (song for _, song in held_out_songs(stores))
        if options.store is not None:
            songs = songs_of(options.store, options.split)
        table, missed = room(options.model, songs, options.samples, options.temperature)
    for name, (mean, onset_f) in table.items():
        print(f"{name:32s} reward of a window {mean:.3f}   onset F1 of a song {onset_f:.3f}")
    share = missed.behind / max(missed.missed, 1)
    print(
        f"likeliest tokens: {missed.missed} of {missed.notes} notes missed, {missed.behind} ({share:.0%}) of "
        "them behind the last one written in their window"
    )


if __name__ == "__main__":
    main()
