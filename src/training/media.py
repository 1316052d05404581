"""Examples of each validation for W&B: what a few songs sound like, and what was heard in them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pytorch_lightning.loggers import Logger

from ..inference.piano_roll import draw_piano_roll
from ..inference.render import render_notes
from ..notes.note import Note
from .logger import SteadyWandbLogger

EXAMPLE_SECONDS = 30.0
"""What is shown of a song, from its start."""


@dataclass(frozen=True)
class Example:
    """The beginning of a validated song."""

    song_id: str
    set_name: str
    step: int
    estimate: Sequence[Note]
    reference: Sequence[Note]
    audio: npt.NDArray[np.float32]
    """(samples,) mono, not longer than :data:`EXAMPLE_SECONDS`."""


def example_writer(loggers: Sequence[Logger], sample_rate: int) -> Callable[[Example], None] | None:
    """What sends an :class:`Example` to W&B; None where W&B is off or was not to be had.

    Each song has three entries: ``examples/SET/SONG/roll`` (a piano roll, the reference behind the estimate),
    ``.../song`` and ``.../transcription`` (sounds). Drawing and sending take a second or so: call it in a
    thread, since other ranks may be waiting.
    """
    found = [item for item in loggers if isinstance(item, SteadyWandbLogger)]
    if not found:
        return None

    def send(example: Example) -> None:
        seconds = len(example.audio) / sample_rate
        estimate, reference = (_beginning(part, seconds) for part in (example.estimate, example.reference))
        caption = f"{example.song_id}, step {example.step}"
        with tempfile.TemporaryDirectory(prefix="amt-example-") as folder:
            picture = Path(folder) / "roll.png"
            draw_piano_roll(picture, estimate, reference, seconds, caption)
            sounds = {
                "song": example.audio,
                "transcription": render_notes(estimate, sample_rate, seconds),
            }
            for logger in found:
                logger.log_example(
                    f"examples/{example.set_name}/{example.song_id}",
                    example.step,
                    picture,
                    sounds,
                    sample_rate,
                    caption,
                )

    return send


def _beginning(notes: Sequence[Note], seconds: float) -> list[Note]:
    return [note for note in notes if note.onset < seconds]
