"""How much the REINFORCE stage could win at most: the best of many draws, chosen with the reference.

``python benchmarks/rl_room.py [MODEL] [--samples 16] [--temperature 0.7] [--held-out SEED ...]``; needs the
quick-start data and a model (default: the one ``make quickstart`` left).

Of each window of the songs of ``objective_rl.py`` the likeliest tokens and so many draws are decoded and
rewarded with ``onset_f``. The best of them, chosen with the reference, is a bound for what making some of
them likelier can reach. Nearer to what a network can learn that hears no better than before is the sequence
most like all others (minimum Bayes risk), which has the best expected score under the network's own beliefs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from objective_rl import BATCH, DATA, ROOT, STORE, held_out, held_out_songs, score_rows, windows_of

from amt.inference import load_transcriber
from amt.model.decoder import DecoderWeights
from amt.notes import array_to_notes
from amt.quickstart.scoring import voice_notes
from amt.rl.reward import Reward
from amt.rl.rollout import roll_out


def room(
    checkpoint: Path, stores: list[Path], num_samples: int, temperature: float
) -> dict[str, tuple[float, float]]:
    """Mean reward of the windows and mean onset F1 of the songs, by the way tokens are chosen."""
    transcriber = load_transcriber(checkpoint, device="cpu")
    model, tokenizer = transcriber.model.eval(), transcriber.tokenizer
    reward = Reward("onset_f", tokenizer)
    likeliest = model.decoding_options(tokenizer.sequence_length)
    weights = DecoderWeights(model.decoder)
    found: dict[str, list[tuple[float, float]]] = {}
    for _, song in held_out_songs(stores):
        windows = windows_of(song, tokenizer.segment_samples)
        encoded = tokenizer.encode(voice_notes(array_to_notes(song.notes)), num_windows=len(windows))[
            :, 0
        ].tolist()
        labels = [row[: row.index(tokenizer.eos_id) + 1] for row in encoded]
        with torch.inference_mode():
            memory = torch.cat([model.encode(part).memory for part in windows.split(BATCH)])
            options = [replace(likeliest, temperature=temperature, seed=i) for i in range(num_samples)]
            tries = [roll_out(weights, memory, item) for item in (likeliest, *options)]
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
    return {
        name: (float(np.mean([a for a, _ in rows])), float(np.nanmean([b for _, b in rows])))
        for name, rows in found.items()
    }


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
    parser.add_argument(
        "--held-out", type=int, nargs="*", default=[], metavar="SEED", help="as objective_rl.py"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        stores = [DATA / STORE, *(held_out(seed, Path(folder)) for seed in options.held_out)]
        table = room(options.model, stores, options.samples, options.temperature)
    for name, (mean, onset_f) in table.items():
        print(f"{name:32s} reward of a window {mean:.3f}   onset F1 of a song {onset_f:.3f}")


if __name__ == "__main__":
    main()
