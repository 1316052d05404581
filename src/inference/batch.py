"""Transcribing folders of any size: spread over devices, resumed where it stopped, with a report."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config.names import counted
from .batch_index import BatchIndex, Outcome, batch_facts
from .batch_workers import Work, run_jobs
from .choices import DEFAULT_CHOICES, DecodingChoices, left_out_text
from .files import atomic_path, printable, remove_unfinished
from .find import find_checkpoint
from .outputs import check_formats, output_path
from .planning import Job, plan_jobs
from .predict import NO_SOUND
from .progress_bar import ProgressBar, real_time

REPORT = "report"
"""Name of the report, ``.json`` and ``.csv``."""


def run_batch(
    spec: str,
    inputs: Sequence[Path],
    out: Path,
    *,
    project: str | None = None,
    log_dir: Path | None = None,
    devices: Sequence[str] = ("auto",),
    processes: int = 1,
    choices: DecodingChoices = DEFAULT_CHOICES,
    formats: Sequence[str] = ("mid",),
    again: bool = False,
) -> int:
    """Transcribe folders and files into ``out``; prints one line for each and a progress bar.

    Sub-folders are mirrored. What an earlier run finished is not done again: an index in ``out`` knows the
    files, the checkpoint and the options. ``report.json`` and ``report.csv`` say what became of each file.

    Args:
        spec: ``exp@checkpoint`` or the path of a checkpoint.
        inputs: folders that are searched for audio files (by content), and audio files.
        out: folder of the outputs.
        project, log_dir, choices: as in :func:`~.transcriber.load_transcriber`.
        devices: names of devices; ``auto`` stands for every GPU, or the CPU where there is none.
        processes: on each device; with one device and one process the work is done in this process.
        formats: names of :data:`~.outputs.WRITERS`.
        again: make everything anew, also what is finished or was made by another checkpoint.

    Returns:
        0 when every file is transcribed, 1 when some could not be.

    Raises:
        ValueError: nothing could begin: one sentence that says why.
    """
    check_formats(formats)
    if processes < 1:
        raise ValueError(f"--processes must be at least 1, is {processes}")
    checkpoint = find_checkpoint(spec, log_dir=log_dir, project=project)
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; the outputs need a folder (-o FOLDER)")
    out.mkdir(parents=True, exist_ok=True)
    out = Path(os.path.abspath(out))
    places = tuple(name for name in _each_device(devices) for _ in range(processes))
    work = Work(checkpoint, choices, tuple(formats), places)
    facts = batch_facts(checkpoint, choices, tuple(formats))
    with BatchIndex(out, facts, again=again) as index:
        sources = [Path(os.path.abspath(item)) for item in inputs]
        jobs = plan_jobs(sources, out, kept=index.stems(), reserved=[out / REPORT])
        return _run(work, jobs, out, index, facts)


def _run(work: Work, jobs: Sequence[Job], out: Path, index: BatchIndex, facts: Mapping[str, object]) -> int:
    by_audio = {job.audio: job for job in jobs}
    outcomes = {job.audio: done for job in by_audio.values() if (done := index.finished(job)) is not None}
    earlier = set(outcomes)
    todo = [job for audio, job in by_audio.items() if audio not in outcomes]
    if earlier:
        verb = "was" if len(earlier) == 1 else "were"
        print(f"{out}: {len(earlier)} of {counted(len(by_audio), 'file')} {verb} finished before", flush=True)
    targets = [output_path(job.stem, name) for job in todo for name in work.formats]
    remove_unfinished(targets)
    begun = time.perf_counter()
    seconds = 0.0
    try:
        if todo:
            with ProgressBar(out.name, "files") as bar:
                for outcome in run_jobs(work, todo):
                    outcomes[outcome.audio] = outcome
                    if outcome.ok:
                        index.add(by_audio[outcome.audio], outcome)
                    _say(outcome, constrained=work.choices.constrained)
                    seconds += outcome.duration
                    bar.show(len(outcomes), len(by_audio), seconds)
    finally:
        remove_unfinished(targets)
        _write_report(out, list(by_audio), outcomes, earlier, facts)
    failed = sum(not outcome.ok for outcome in outcomes.values())
    rate = f", {real_time(seconds, time.perf_counter() - begun)}" if seconds else ""
    broken = f", {failed} could not be: see {out / REPORT}.json" if failed else ""
    share = f"{len(by_audio) - failed} of {counted(len(by_audio), 'file')}"
    print(printable(f"{share} transcribed{broken}{rate}"))
    return 1 if failed else 0


def _each_device(names: Sequence[str]) -> list[str]:
    """``auto`` replaced by every GPU, or by the CPU where there is none."""
    devices: list[str] = []
    for name in names:
        if name.strip().lower() != "auto":
            devices.append(name)
            continue
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        devices += [f"cuda:{number}" for number in range(count)] if count > 1 else ["auto"]
    return devices


def _say(outcome: Outcome, *, constrained: bool) -> None:
    if outcome.ok:
        left_out = left_out_text(outcome.malformed, constrained=constrained)
        line = f"{outcome.audio}: {NO_SOUND}"
        if outcome.duration:
            line = f"{outcome.audio}: {counted(outcome.notes, 'note')} in {outcome.duration:.1f} s"
            line += f", {left_out}" if left_out else ""
    else:
        line = f"{outcome.audio}: not transcribed: {outcome.reason}"
    print(printable(line), file=sys.stdout if outcome.ok else sys.stderr, flush=True)


def _write_report(
    out: Path,
    audios: Sequence[Path],
    outcomes: Mapping[Path, Outcome],
    earlier: set[Path],
    facts: Mapping[str, object],
) -> None:
    """``report.json`` and ``report.csv``: every file with its status."""
    rows: list[dict[str, Any]] = []
    for audio in audios:
        outcome = outcomes.get(audio)
        status = "waiting"
        if outcome is not None:
            status = "failed" if not outcome.ok else "earlier" if audio in earlier else "transcribed"
        known = outcome or Outcome(audio)
        rows.append(
            {
                "file": str(audio),
                "status": status,
                "notes": known.notes,
                "seconds": round(known.duration, 3),
                "malformed": known.malformed,
                "outputs": [os.path.relpath(path, out) for path in known.outputs],
                "reason": known.reason,
                "remarks": list(known.remarks),
            }
        )
    counts = {
        status: sum(row["status"] == status for row in rows)
        for status in ("transcribed", "earlier", "failed", "waiting")
    }
    with atomic_path(out / f"{REPORT}.json") as temporary:
        whole = {**facts, "counts": counts, "files": rows}
        temporary.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    lists = ("outputs", "remarks")
    writer.writerows(row | {name: " | ".join(row[name]) for name in lists} for row in rows)
    with atomic_path(out / f"{REPORT}.csv") as temporary:
        temporary.write_text(table.getvalue(), encoding="utf-8", errors="surrogateescape")
