"""Finding the checkpoint a user means: a path, or ``exp@checkpoint`` below the folder of runs.

Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..config.environment import read_environment
from ..config.names import from_above, nearest
from ..model.checkpoint_names import (
    CHECKPOINTS,
    LAST_NAME,
    find_named,
    listed_files,
    missing_text,
    split_exp_id,
)


def find_checkpoint(spec: str | Path, *, log_dir: Path | None = None, project: str | None = None) -> Path:
    """The file behind ``spec``.

    Args:
        spec: the path of a file, or ``exp@checkpoint``, or ``exp`` for its ``last.ckpt``. Slashes in the
            checkpoint's name also find the file with ``_`` in their place; ``.ckpt`` may be left out;
            ``exp@best`` is the file with the best score.
        log_dir: folder of the runs, ``log_dir/<project>/<exp>/checkpoints/``; default ``AMT_LOG_DIR``.
        project: only this project; ``None`` searches all.

    Raises:
        ValueError: nothing there (lists what is), or found in more than one project.
    """
    text = str(spec)
    if os.path.isfile(text):
        return Path(text)
    if "@" not in text and ("/" in text or text.endswith((".ckpt", ".pt", ".pth", ".safetensors"))):
        if os.path.isdir(text):
            raise ValueError(f"{text} is a folder, not a checkpoint: name a run as EXP@last.ckpt, or a file")
        raise ValueError(f"{text} does not exist{from_above(Path(text))}")
    experiment, given = split_exp_id(text)
    name = given or LAST_NAME
    if log_dir is None:
        log_dir = read_environment(os.environ).log_dir
    runs = _runs(log_dir, experiment, project)
    if not runs:
        raise ValueError(_no_run(log_dir, experiment, project))
    found = [(run, path) for run in runs if (path := find_named(run / CHECKPOINTS, name)) is not None]
    if len({path for _, path in found}) > 1:
        where = ", ".join(run.parent.name for run, _ in found)
        raise ValueError(
            f"{text} is ambiguous: projects {where} all have it; choose one with -p, for example "
            f"-p {found[0][0].parent.name}, or give the path of the file"
        )
    if not found:
        there = sorted(path.name for run in runs for path in (run / CHECKPOINTS).glob("*.ckpt"))
        where = " and ".join(str(run / CHECKPOINTS) for run in runs)
        raise ValueError(f"{missing_text(name, experiment)}; in {where}: {listed_files(there)}")
    return found[0][1]


def _runs(log_dir: Path, experiment: str, project: str | None) -> list[Path]:
    parents = [log_dir / project] if project else sorted(p for p in log_dir.glob("*") if p.is_dir())
    return [parent / experiment for parent in parents if os.path.isdir(parent / experiment)]


def _no_run(log_dir: Path, experiment: str, project: str | None) -> str:
    where = log_dir / project if project else log_dir
    known = sorted(path.parent.name for path in where.glob(f"{'' if project else '*/'}*/{CHECKPOINTS}"))
    near = nearest(experiment, known)
    if near:
        hint = f"did you mean {' or '.join(repr(item) for item in near)}?"
    else:
        shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        hint = f"runs there: {shown or 'none'}"
    return f"no run {experiment!r} in {where} and no such file; {hint}"
