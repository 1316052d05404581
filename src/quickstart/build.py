"""Builds the quick-start store: rendering in processes, writing, progress."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..config.names import counted
from ..data.store import StoreWriter
from ..notes.note import DRUM_PROGRAM, NOTE_DTYPE, SINGING_PROGRAM, NoteArray
from . import bands, mixes, singers, songs, voices
from .plan import SPLIT_ORDER, Planner, SongPlan

STORE_NAME = "quickstart"
LICENCE = (
    "synthetic; tunes out of copyright, their encodings under the terms of music21/corpus/license.txt; "
    "instruments: the sound font TimGM6mb as distributed with pretty_midi"
)


@dataclass(frozen=True)
class RenderedSong:
    """A song ready for the store."""

    stems: npt.NDArray[np.int16]
    programs: list[list[int]]
    names: list[str]
    notes: NoteArray
    meta: dict[str, Any]


def render_song(plan: SongPlan) -> RenderedSong:
    """Sing, play and mix one song. Depends on the plan only."""
    rng = songs.generator(plan.seed, plan.song_id)
    mixing, performance = plan.split.mixing, plan.performance
    samples = int(performance.seconds * singers.SAMPLE_RATE)
    voice_plan = singers.plan_voice(performance, plan.singer, samples, rng)
    voice = voices.sing(voice_plan, plan.singer, rng)
    if rng.random() < mixing.equaliser:
        voice = mixes.equalise(voice, rng)
    arranged = bands.arrange(performance, int(rng.integers(mixing.parts[0], mixing.parts[1] + 1)), rng)
    parts = [bands.audible(part) for part in arranged]
    pitched = [bands.render(part, samples) for part in parts]
    drums = None
    if rng.random() < mixing.drums:
        parts.append(bands.audible(bands.drum_part(performance, rng)))
        drums = bands.render(parts[-1], samples)
    meta: dict[str, Any] = {}
    if rng.random() < mixing.reverb:
        rt60, wet_db = float(rng.uniform(*mixing.rt60)), float(rng.uniform(*mixing.wet_db))
        meta.update(rt60=rt60, wet_db=wet_db)
        voice = mixes.add_room(voice, mixes.make_room(rt60, wet_db, rng))
        band_room = mixes.make_room(rt60, wet_db - 2.0, rng)
        pitched = [mixes.add_room(stem, band_room) for stem in pitched]
        if drums is not None:
            drums = mixes.add_room(drums, band_room)
    if mixing.final:
        stems, lead = mixes.final_levels(voice, pitched, drums, mixing, rng)
        meta["voice_lead_db"] = lead
    else:
        band = pitched if drums is None else [*pitched, drums]
        stems = [mixes.nominal(voice, mixes.VOICE_DB, rng)]
        stems += [mixes.nominal(stem, mixes.BAND_DB, rng) for stem in band]
    programs = [[SINGING_PROGRAM], *([part.program] for part in parts)]
    names = ["voice", *(part.name for part in parts)]
    if rng.random() < mixing.noise:
        snr = float(rng.uniform(*mixing.snr_db))
        level = mixes.rms(stems[0], mixes.active(stems[0])) * 10 ** (-snr / 20)
        stems.append(level * mixes.coloured_noise(samples, rng))
        programs.append([])
        names.append("noise")
        meta["snr_db"] = snr
    rows = [(n.onset, n.offset, n.pitch, SINGING_PROGRAM, n.velocity, False) for n in voice_plan.notes] + [
        (n.onset, n.offset, n.pitch, part.program, n.velocity, part.program == DRUM_PROGRAM)
        for part in parts
        for n in part.notes
    ]
    tune = performance.tune
    meta.update(
        source=f"music21 corpus: {tune.source}",
        licence=LICENCE,
        tune=tune.key,
        kind=tune.kind,
        engine=plan.singer.engine,
        singer=plan.singer.name,
        voice_type=plan.singer.kind,
        tempo_bpm=performance.timing.bpm,
        synthetic=True,
    )
    return RenderedSong(mixes.to_int16(stems), programs, names, np.array(rows, dtype=NOTE_DTYPE), meta)


class _Reporter:
    """A rich bar in a terminal, a plain line now and then elsewhere, or nothing."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.console = Console()
        self.total = 0
        self.begun = time.monotonic()
        self.said = 0.0
        self.bar: Progress | None = None

    def say(self, text: str) -> None:
        if self.enabled:
            self.console.print(text, markup=False, highlight=False)

    def start(self, total: int) -> None:
        self.total, self.begun, self.said = total, time.monotonic(), time.monotonic()
        if self.enabled and self.console.is_terminal:
            columns = (
                TextColumn("rendering songs"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self.bar = Progress(*columns, console=self.console)
            self.bar.add_task("songs", total=total)
            self.bar.start()

    def advance(self, done: int) -> None:
        now = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done)
        elif self.enabled and (now - self.said > 5 or done == self.total):
            self.said = now
            left = (now - self.begun) / done * (self.total - done)
            self.say(f"quickstart: {done} of {counted(self.total, 'song')}, {left:.0f} s left")

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _in_order(plans: list[SongPlan], pool: ProcessPoolExecutor | None, ahead: int) -> Iterator[RenderedSong]:
    """Rendered songs in the order of the plans; at most ``ahead`` in the works."""
    if pool is None:
        yield from map(render_song, plans)
        return
    waiting: deque[Future[RenderedSong]] = deque()
    rest = iter(plans)
    for plan in rest:
        waiting.append(pool.submit(render_song, plan))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def build_quickstart(
    out: Path,
    *,
    minutes: float = 60.0,
    seed: int = 2026,
    processes: int | None = None,
    progress: bool = True,
    small: bool = False,
) -> None:
    """Make the quick-start data set, a store named ``quickstart`` in folder ``out``; replaces one there.

    Args:
        minutes: sound in the training split.
        seed: everything follows from it; the evaluation splits depend on nothing else.
        processes: worker processes; by default one per core, at most 8; 1 works in this process.
        progress: report progress on the console.
        small: seven songs of about 12 seconds for tests; ``minutes`` is ignored.

    Raises:
        ValueError: when a package of the extra ``quickstart`` is missing, or ``minutes`` is not positive.
    """
    if minutes <= 0:
        raise ValueError(f"the quick-start data needs more than 0 minutes, not {minutes}")
    for package in ("music21", "pretty_midi", "symusic"):
        songs.package_folder(package)
    if processes is None:
        processes = 1 if small else min(8, len(os.sched_getaffinity(0)))
    reporter = _Reporter(progress)
    reporter.say("quickstart: reading tunes")
    begun = time.monotonic()
    pool = None
    if processes > 1:
        pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
    try:
        planner = Planner(seed, small, map if pool is None else pool.map)
        evaluation = planner.evaluation()
        plans = planner.training(minutes) + evaluation
        plans.sort(key=lambda plan: SPLIT_ORDER.index(plan.split.name))
        facts = {"seed": seed, "small": small, "synthetic": True}
        with StoreWriter(out, STORE_NAME, singers.SAMPLE_RATE, overwrite=True, facts=facts) as writer:
            reporter.start(len(plans))
            try:
                rendered = _in_order(plans, pool, 2 * processes + 2)
                for done, (plan, song) in enumerate(zip(plans, rendered, strict=True), 1):
                    writer.add_song(
                        plan.split.name,
                        plan.song_id,
                        song.stems,
                        song.programs,
                        song.names,
                        song.notes,
                        song.meta,
                    )
                    reporter.advance(done)
            finally:
                reporter.stop()
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    total = sum(plan.performance.seconds for plan in plans) / 60
    reporter.say(
        f"quickstart: {counted(len(plans), 'song')}, {total:.1f} minutes, "
        f"made in {time.monotonic() - begun:.0f} s"
    )
