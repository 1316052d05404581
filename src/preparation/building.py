"""Many songs become a store: in parallel, resumed where it was broken off, whole or not there."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import warnings
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from soundfile import SoundFileError

from ..data.store import StoreWriter
from ..data.store_song import check_song_id, write_json, write_song
from .plan import LoadedSong, SongPlan, plan_splits

SHOWN_PROBLEMS = 50
"""Problems printed one by one; the rest is counted."""
_SONGS_PER_PROCESS = 8
"""Fewer songs are read before further processes have started."""
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)
_DONE = "done"
"""Folder with the fingerprint of each finished song, beside the store to be."""
_WORK = "work"
"""Folder where songs are written before they take their place."""


class NoSongError(ValueError):
    """Nothing is left to make a store of."""


class DiskError(ValueError):
    """The disk does not take what is written."""


class KilledError(ValueError):
    """A process that reads songs is gone."""


class BrokenSongsError(ValueError):
    """Songs that cannot be read; those that can are kept for the next try."""


@dataclass
class BuildReport:
    """What became of the songs."""

    splits: dict[str, int] = field(default_factory=dict)
    """Songs of each split."""
    reused: int = 0
    """Songs an earlier run had finished."""
    broken: dict[str, str] = field(default_factory=dict)
    """Song that cannot be read, and why."""
    remarks: list[str] = field(default_factory=list)
    """What was wrong with songs that were kept."""
    counts: Counter[str] = field(default_factory=Counter)
    """Small repairs."""


@dataclass(frozen=True)
class _Outcome:
    song_id: str
    error: str = ""
    remarks: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Job:
    """Reads one song and writes it into the store to be."""

    plan: SongPlan
    folder: Path
    """Where ``_WORK`` and ``_DONE`` are."""
    songs: Path
    """Where finished songs go."""
    fingerprint: str
    coding: str
    sample_rate: int

    def __call__(self) -> _Outcome:
        song_id = self.plan.song_id
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                song = self.plan.load(self.sample_rate)
        except (ValueError, OSError) as error:
            return _Outcome(song_id, str(error))
        remarks = tuple(str(item.message) for item in said)
        work = self.folder / _WORK / f"{song_id}.{os.getpid()}"
        try:
            self._write(song, work, remarks)
        except ValueError as error:
            return _Outcome(song_id, str(error))
        except (OSError, SoundFileError) as error:
            raise _disk_error(self.folder.parent, error) from None
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return _Outcome(song_id, "", remarks, song.counts)

    def _write(self, song: LoadedSong, work: Path, remarks: Sequence[str]) -> None:
        song_id = self.plan.song_id
        write_song(
            work,
            song_id,
            song.stems,
            song.stem_programs,
            song.stem_names,
            song.notes,
            song.meta,
            coding=self.coding,
            sample_rate=self.sample_rate,
        )
        os.rename(work, self.songs / song_id)
        fate = {"fingerprint": self.fingerprint, "remarks": remarks, "counts": dict(song.counts)}
        write_json(work.with_suffix(".json"), fate)
        os.rename(work.with_suffix(".json"), self.folder / _DONE / f"{song_id}.json")


def build_store(
    path: Path,
    name: str,
    plans: Sequence[SongPlan],
    *,
    report: BuildReport | None = None,
    splits: Sequence[str] = (),
    order: Mapping[str, Sequence[str]] | None = None,
    processes: int | None = None,
    flac: bool = False,
    overwrite: bool = False,
    skip_broken: bool = False,
    facts: dict[str, Any] | None = None,
    console: Console | None = None,
    sample_rate: int = 16000,
) -> BuildReport:
    """Make the store ``path`` of the songs ``plans``.

    Finished songs lie in a hidden folder beside ``path`` until all are there. A run that was broken off, or
    that found broken songs, goes on where it was; a song whose files have changed since is read again.

    Args:
        path: folder of the store.
        name: of the data set.
        plans: the songs; ids are unique.
        report: takes what becomes of the songs; its ``broken`` ones are known to be beyond reading.
        splits: that exist even without songs.
        order: all songs of splits, where their order is not that of the plans.
        processes: that read; 1 works in this one; None is one for each core where there are songs
            enough, at most 16.
        flac: store FLAC.
        overwrite: replace a store that is there.
        skip_broken: make the store without songs that cannot be read.
        facts: further plain values for ``store.json``.
        console: where the progress bar goes; None for none.
        sample_rate: of the store.

    Raises:
        NoSongError: when no song can be read.
        BrokenSongsError: lists the songs that cannot be read, unless ``skip_broken``.
        KilledError: when a process that reads dies.
        DiskError: when the disk is full or gone.
    """
    report = report or BuildReport()
    total = len(plans) + len(report.broken)
    seen: set[str] = set()
    for plan in plans:
        check_song_id(plan.song_id, seen)
        seen.add(plan.song_id)
    with (
        _disk_errors_in(path.parent),
        StoreWriter(
            path, name, sample_rate, overwrite=overwrite, flac=flac, facts=facts, resume=True
        ) as writer,
    ):
        jobs = _open_jobs(writer, plans, report)
        columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        quiet = console is None or console.quiet
        with Progress(*columns, console=console, disable=quiet) as bar:
            task = bar.add_task("", total=len(plans), completed=report.reused)
            for outcome in _run(jobs, default_processes(len(jobs)) if processes is None else processes):
                if outcome.error:
                    report.broken[outcome.song_id] = outcome.error
                report.remarks += outcome.remarks
                report.counts.update(outcome.counts)
                bar.advance(task)
        if len(report.broken) == total:
            raise NoSongError(f"{name}: no song can be read{first_lines(report.broken)}")
        if report.broken and not skip_broken:
            raise BrokenSongsError(
                f"{name}: {len(report.broken)} of {total} songs cannot be read; the others are kept: "
                "repair these and run the same command again, or leave them out with --skip-broken"
                + first_lines(report.broken)
            )
        _arrange(writer, _members(plans, splits, order or {}, report.broken), report)
    return report


def _disk_error(folder: Path, error: Exception) -> DiskError:
    return DiskError(
        f"{folder}: the data set cannot be written ({error}); finished songs are kept: make room and run "
        "the same command again"
    )


@contextmanager
def _disk_errors_in(folder: Path) -> Iterator[None]:
    """A disk that is full or gone is a :class:`DiskError`."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise _disk_error(folder, error) from None


def print_outcome(
    console: Console, report: BuildReport, further: Mapping[str, Sequence[str]] | None = None
) -> None:
    """What was repaired and counted, left out, and remarked, each with its title, and ``further`` lists."""
    for what, count in report.counts.items():
        console.print(f"{what}: {count:,}", highlight=False)
    left_out = [f"{song}: {reason}" for song, reason in report.broken.items()]
    for title, lines in {"left out": left_out, "remarks": report.remarks, **(further or {})}.items():
        if lines:
            console.print(f"{title}: {len(lines):,}", highlight=False)
            for line in lines[:SHOWN_PROBLEMS]:
                console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
            if len(lines) > SHOWN_PROBLEMS:
                console.print(f"  and {len(lines) - SHOWN_PROBLEMS:,} more", highlight=False)


def first_lines(problems: dict[str, str]) -> str:
    """The first problems, one to a line, each after a line break, and how many more there are."""
    more = len(problems) - SHOWN_PROBLEMS
    lines = [f"\n  {place}: {problem}" for place, problem in list(problems.items())[:SHOWN_PROBLEMS]]
    return "".join(lines) + (f"\n  and {more} more" if more > 0 else "")


def default_processes(num_songs: int) -> int:
    """Processes that read so many songs: one for each core, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(16, cores, num_songs // _SONGS_PER_PROCESS))


def _open_jobs(writer: StoreWriter, plans: Sequence[SongPlan], report: BuildReport) -> list[_Job]:
    """Jobs for the songs that no earlier run has finished; what is of no use any more is removed."""
    folder = writer.folder
    shutil.rmtree(folder / _WORK, ignore_errors=True)
    (folder / _WORK).mkdir()
    (folder / _DONE).mkdir(exist_ok=True)
    jobs: list[_Job] = []
    kept: set[str] = set()
    for plan in plans:
        missing = [file for file in plan.files if not file.is_file()]
        if missing:
            report.broken[plan.song_id] = f"{missing[0]}: the file is missing"
            continue
        fingerprint = _fingerprint(plan, writer)
        job = _Job(plan, folder, writer.songs_folder, fingerprint, writer.coding, writer.sample_rate)
        fate = _read_fate(folder / _DONE / f"{plan.song_id}.json")
        song = writer.songs_folder / plan.song_id
        if song.is_dir() and fate.get("fingerprint") == job.fingerprint:
            kept.add(plan.song_id)
            report.reused += 1
            report.remarks += fate["remarks"]
            report.counts.update(fate["counts"])
        else:
            jobs.append(job)
    for item in writer.songs_folder.iterdir():
        if item.name not in kept:
            shutil.rmtree(item)
    return jobs


def _read_fate(path: Path) -> dict[str, Any]:
    try:
        fate = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return fate if isinstance(fate, dict) else {}


def _fingerprint(plan: SongPlan, writer: StoreWriter) -> str:
    """What a finished song depends on: its files as they are now, how they are read, and how it is stored."""
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in plan.files]
    how = pickle.dumps(plan.load)
    return sha256(repr((states, how, writer.coding, writer.sample_rate)).encode()).hexdigest()


def _run(jobs: Sequence[_Job], processes: int) -> Iterator[_Outcome]:
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield job()
        return
    context = multiprocessing.get_context("spawn")
    # Ctrl-C reaches all processes; the songs in the works are finished and the first process says so.
    ignored = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(min(processes, len(jobs)), context, signal.signal, ignored) as pool:
        rest = iter(jobs)
        waiting: set[Future[_Outcome]] = set()
        try:
            while True:
                for job in islice(rest, 4 * processes - len(waiting)):
                    waiting.add(pool.submit(job))
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool:
            raise KilledError(
                "a process that reads songs was killed, likely because the machine has too little memory; "
                f"run the same command again with fewer processes than {processes}: finished songs are kept"
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _members(
    plans: Sequence[SongPlan],
    splits: Sequence[str],
    order: Mapping[str, Sequence[str]],
    broken: Container[str],
) -> dict[str, list[str]]:
    """The songs of each split, in order, without broken ones."""
    members: dict[str, list[str]] = {split: [] for split in splits}
    for plan in plans:
        for split in plan.splits:
            members.setdefault(split, []).append(plan.song_id)
    members.update({split: list(songs) for split, songs in order.items()})
    return {split: [song for song in songs if song not in broken] for split, songs in members.items()}


def _arrange(writer: StoreWriter, members: Mapping[str, Sequence[str]], report: BuildReport) -> None:
    """Put the finished songs into their splits."""
    arranged = plan_splits(members)
    for split in members:
        if split not in arranged.views:
            writer.add_split(split)
    for song_id, split in arranged.owners.items():
        writer.add_finished(split, song_id)
    for split, songs in arranged.views.items():
        writer.add_view(split, songs)
    report.splits = {split: len(dict.fromkeys(songs)) for split, songs in members.items()}
