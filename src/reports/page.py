"""The parts of a report page: one self-contained HTML file, without scripts and without the network."""

from __future__ import annotations

import base64
import html
import io
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..config.names import counted
from ..evaluation.bootstrap import INTERVAL_SONGS
from ..inference.files import atomic_path
from ..inference.piano_roll import draw_piano_roll
from ..inference.render import render_notes
from ..notes.note import Note

Samples = npt.NDArray[np.float32]
_FRAME = Path(__file__).with_name("page.html")


@dataclass(frozen=True)
class Example:
    """A song of a report, to look at and to hear."""

    title: str
    audio: Samples
    """The input, (samples,) float32."""
    sample_rate: int
    estimate: Sequence[Note]
    reference: Sequence[Note]
    onset_f: float
    offset_f: float = float("nan")
    remark: str = ""
    """Further words under the title."""


def write_page(path: str | Path, title: str, template: Path, parts: Mapping[str, str]) -> None:
    """Write a page whole or not at all.

    Args:
        path: of the HTML file.
        title: plain text.
        template: HTML file of the page's body with ``{{name}}`` for each of ``parts``.
        parts: HTML by name.
    """
    body = _fill(template.read_text(encoding="utf-8"), parts)
    page = _fill(_FRAME.read_text(encoding="utf-8"), {"title": html.escape(title), "body": body})
    with atomic_path(Path(path)) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def facts_table(facts: Mapping[str, object]) -> str:
    """A table of names and plain texts."""
    rows = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(str(value))}</td></tr>"
        for key, value in facts.items()
    )
    return f'<table class="facts"><tbody>{rows}</tbody></table>'


def score_card(value: float, what: str, quiet: str) -> str:
    """A big percentage over two lines of plain text."""
    return (
        f'<div class="card"><div class="big">{percent_text(value)}</div>'
        f'<div class="what">{html.escape(what)}</div><div class="quiet">{html.escape(quiet)}</div></div>'
    )


def score_text(value: float) -> str:
    """A score in a table; a dash for NaN."""
    return "–" if math.isnan(value) else f"{value:.3f}"


def percent_text(value: float) -> str:
    """A score as a big number."""
    return "–" if math.isnan(value) else f"{100 * value:.1f}<small>%</small>"


def interval_text(low: float, high: float, num_songs: int, scale: float = 1.0) -> str:
    """The interval of a score in words, times ``scale``; nothing for too few songs to have one."""
    if num_songs < INTERVAL_SONGS or math.isnan(low):
        return ""
    digits = 3 if scale == 1.0 else 1
    return f"{scale * low:.{digits}f} to {scale * high:.{digits}f}"


def spread_text(low: float, high: float, num_songs: int) -> str:
    """An interval below a score; nothing for too few songs."""
    text = interval_text(low, high, num_songs)
    return text and f'<span class="spread">{text}</span>'


def excerpt(item: Example, start: float, seconds: float) -> Example:
    """``seconds`` of an example from ``start`` on, its notes cut to them."""
    first = round(start * item.sample_rate)
    audio = item.audio[first : first + round(seconds * item.sample_rate)]
    duration = len(audio) / item.sample_rate

    def cut(notes: Sequence[Note]) -> list[Note]:
        return [
            note._replace(
                onset=max(note.onset - start, 0.0), offset=min(max(note.offset - start, 0.0), duration)
            )
            for note in notes
            if note.offset > start and note.onset < start + duration
        ]

    return replace(item, audio=audio, estimate=cut(item.estimate), reference=cut(item.reference))


def song_section(item: Example) -> str:
    """Title, piano roll and players of an example."""
    duration = len(item.audio) / item.sample_rate
    heard = render_notes(item.estimate, item.sample_rate, duration)
    true = render_notes(item.reference, item.sample_rate, duration)
    players = "".join(
        f"<figure><figcaption>{label}</figcaption>"
        f'<audio controls preload="none" src="{_audio_url(sound, item.sample_rate)}"></audio></figure>'
        for label, sound in (
            ("Input", item.audio),
            ("Transcription, rendered", heard),
            ("Reference, rendered", true),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "roll.png"
        draw_piano_roll(picture, item.estimate, item.reference, duration)
        image = base64.b64encode(picture.read_bytes()).decode("ascii")
    title = html.escape(item.title)
    offset = "" if math.isnan(item.offset_f) else f", with offsets {score_text(item.offset_f)}"
    remark = f"; {html.escape(item.remark)}" if item.remark else ""
    return (
        f'<section class="song"><h3>{title}</h3>'
        f'<p class="quiet">onset F1 {score_text(item.onset_f)}{offset}; '
        f"{counted(len(item.estimate), 'note')} found, {len(item.reference):,} in the reference{remark}</p>"
        f'<img alt="Piano roll of {title}" src="data:image/png;base64,{image}">'
        f'<div class="players">{players}</div></section>'
    )


def _audio_url(audio: Samples, sample_rate: int) -> str:
    import soundfile

    memory = io.BytesIO()
    soundfile.write(memory, np.clip(audio, -1.0, 1.0), sample_rate, format="MP3")
    return f"data:audio/mpeg;base64,{base64.b64encode(memory.getvalue()).decode('ascii')}"
