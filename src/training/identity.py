"""Which run this is: scratch, resume or warm start, decided from the flags and the run folder alone.

Standard library only, so that ``train.py --print-identity`` answers at once. The rules are in
``docs/runs.md``.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..config import nearest
from ..config.names import from_above, listing, named_path
from ..inference.find import find_checkpoint
from ..model.checkpoint_header import Header, diagnose_file, read_header
from ..model.checkpoint_names import LAST_NAME, check_folder_name, find_named, missing_text, split_exp_id
from .run_folder import RunFolder, old_files

_MAX_LISTED = 12


@dataclass(frozen=True)
class RunDecision:
    """What a start of ``train.py`` does."""

    kind: Literal["scratch", "resume", "warm"]
    checkpoint: Path | None
    """File the state (resume) or the weights (warm) come from; None from scratch."""
    reason: str
    """Why, in words for the user."""
    step: int | None
    """Step the run starts at; None when the checkpoint does not say."""
    set_aside: bool
    """Whether the run folder's old files are moved to ``previous-N`` first."""


def decide_run(
    folder: Path,
    exp_id: str,
    checkpoint_name: str | None,
    *,
    force_scratch: bool = False,
    init_ckpt: str = "",
    allow_rewind: bool = False,
    restart_count: int = 0,
) -> RunDecision:
    """Decide between scratch, resume and warm start; reads ``folder``, changes nothing.

    Args:
        folder: the run's folder, ``logs/<project>/<exp_id>``; need not exist.
        exp_id: the experiment's name, for messages.
        checkpoint_name: what followed ``@`` on the command line, or None.
        force_scratch: ``AMT_FORCE_SCRATCH``; acts at the first start only.
        init_ckpt: ``--init-ckpt``, a path or ``exp@checkpoint``, looked for in the project of ``folder``
            and then in the others; empty is none.
        allow_rewind: ``AMT_ALLOW_REWIND``.
        restart_count: how often a launcher restarted this run (``SLURM_RESTART_COUNT`` or
            ``TORCHELASTIC_RESTART_COUNT``).

    Raises:
        ValueError: for conflicting flags, a missing or unreadable file, a rewind that was not asked for,
            or a folder whose state does not say what is meant.
    """
    if checkpoint_name is not None and force_scratch:
        raise ValueError(
            f"{exp_id}@{checkpoint_name} asks to resume, AMT_FORCE_SCRATCH=1 to start anew: drop one of them"
        )
    if checkpoint_name is not None and init_ckpt:
        raise ValueError(
            f"{exp_id}@{checkpoint_name} resumes a run and --init-ckpt starts one from another's weights: "
            "drop one of them"
        )
    last = RunFolder(folder).last
    restarted = f"the launcher's restart {restart_count}"
    if checkpoint_name is not None:
        return _resume_named(folder, exp_id, checkpoint_name, allow_rewind, restart_count)
    forced = force_scratch and restart_count == 0
    if (last.exists() or last.is_symlink()) and not forced:
        header = _resumable(last, exp_id, folder)
        _refuse_stale_last(folder, exp_id, header)
        reason = "last.ckpt exists"
        if header.exp_id and header.exp_id != exp_id:
            reason += f"; it was written as {header.exp_id}"
        if force_scratch:
            reason += f"; AMT_FORCE_SCRATCH has acted already, this is {restarted}"
        if init_ckpt:
            reason += "; --init-ckpt is not read again, the run it started goes on"
        return RunDecision("resume", last, reason, header.step, False)
    set_aside = forced and bool(old_files(folder))
    if not forced:
        _refuse_orphans(folder, exp_id)
    why = "AMT_FORCE_SCRATCH=1" if forced else f"no last.ckpt in {folder / 'checkpoints'}"
    if init_ckpt:
        path = _init_file(init_ckpt, folder)
        return RunDecision("warm", path, f"--init-ckpt is given, {why}", 0, set_aside)
    return RunDecision("scratch", None, why, 0, set_aside)


def describe(decision: RunDecision) -> str:
    """The decision in one line, the first thing a run prints."""
    if decision.kind == "resume":
        step = "" if decision.step is None else f" at step {decision.step}"
        head = f"run: RESUME{step} from {decision.checkpoint}"
    elif decision.kind == "warm":
        head = f"run: WARM START at step 0, weights only, from {decision.checkpoint}"
    else:
        head = "run: SCRATCH at step 0"
    aside = "; old files are moved aside first" if decision.set_aside else ""
    return f"{head} ({decision.reason}{aside})"


def validate_resume_max_steps(
    step: int, max_steps: int, *, epochs: int = 0, speaks: bool = True
) -> int | None:
    """The exit status of a resumed run that has nothing to do, after saying so; None: go on.

    Args:
        step: ``global_step`` of the checkpoint.
        max_steps: ``-it``, or the steps of ``epochs``; -1 is no limit.
        epochs: ``-e`` where that is the limit, else 0.
        speaks: False says nothing, for ranks other than the first.

    Returns:
        0 when the run is finished (equal), 2 when the checkpoint is beyond the limit, else None.
    """
    if max_steps < 0 or step < max_steps:
        return None
    limit, further = limit_texts(step, max_steps, epochs)
    status = 0 if step == max_steps else 2
    what = f"finished, already at step {step} of {limit}"
    if status:
        what = f"the checkpoint is at step {step}, beyond {limit}"
    if speaks:
        text = f"run: {what}: nothing is trained and no file changed; {further}"
        print(text, file=sys.stderr if status else sys.stdout, flush=True)
    return status


def limit_texts(step: int, max_steps: int, epochs: int) -> tuple[str, str]:
    """The limit of a run as the user gave it, and which flag leads beyond ``step``; see
    :func:`validate_resume_max_steps`."""
    if epochs:
        return (
            f"-e {epochs} ({max_steps} steps)",
            f"to go on give more epochs with -e, or -it more than {step}",
        )
    return f"-it {max_steps}", f"to go on give -it more than {step}"


def run_folder(log_dir: Path, project: str, exp_id: str) -> Path:
    """``log_dir/project/exp_id``, always inside ``log_dir``.

    Raises:
        ValueError: when a name is empty or would lead out of its folder.
    """
    check_folder_name("project (-p)", project)
    check_folder_name("exp_id", exp_id)
    return log_dir / project / exp_id


def _resume_named(
    folder: Path, exp_id: str, name: str, allow_rewind: bool, restart_count: int
) -> RunDecision:
    path = _find_checkpoint(folder, exp_id, name)
    header = _resumable(path, exp_id, folder)
    reason = f"{exp_id}@{name} on the command line"
    last = RunFolder(folder).last
    same = last.exists() and path.samefile(last)
    if not same and last.exists() and diagnose_file(last) is None:
        newest = read_header(last)
        if newest is not None and newest.is_of_another_run(header) and not allow_rewind:
            raise ValueError(
                f"{path} is of another run than the {LAST_NAME} of {exp_id}, which would be replaced: "
                f"resume it under a new exp_id (NEW@{path}), or set AMT_ALLOW_REWIND=1 to replace it"
            )
        if newest is not None and newest.descends_from(header):
            where = f"{LAST_NAME} (step {newest.step})"
            if restart_count > 0:
                return RunDecision(
                    "resume",
                    last,
                    f"the launcher's restart {restart_count}: {where} descends from {exp_id}@{name}",
                    newest.step,
                    False,
                )
            if not allow_rewind:
                raise ValueError(
                    f"{exp_id}@{name} is at step {header.step}, and {where} goes on from it: its training "
                    f"would be overwritten. Start {exp_id} to go on from {where}, set AMT_ALLOW_REWIND=1 "
                    f"to go back, or take another exp_id with --init-ckpt {path}"
                )
            reason += f"; AMT_ALLOW_REWIND=1 goes back behind {where}"
    return RunDecision("resume", path, reason, header.step, False)


def _find_checkpoint(folder: Path, exp_id: str, name: str) -> Path:
    """The file ``name`` stands for, or an error that lists what is there."""
    home = RunFolder(folder).checkpoints
    found = find_named(home, name)
    if found is not None:
        return found
    there = _checkpoints(folder)
    names = [path.relative_to(home).as_posix() for path in there]
    close = nearest(name, names, count=1)
    hint = f" Did you mean {exp_id}@{close[0]}?" if close else ""
    for path in _other_splits(folder, exp_id, name):  # the name of the file may hold an @ itself
        hint = f" Did you mean {path.parent.parent.name}@{path}?"
    raise ValueError(f"{missing_text(name, exp_id)}: {_listing(folder, there)}.{hint}")


def _resumable(path: Path, exp_id: str, folder: Path) -> Header:
    """The header of a file that can be resumed, or an error that says what it is instead."""
    problem = diagnose_file(path)
    header = read_header(path) if problem is None else None
    if problem is None and header is None:
        problem = "is damaged: what it says of itself cannot be read"
    if header is not None:
        if header.step is None or not header.complete:
            raise ValueError(
                f"{path} holds weights but no training state, so it cannot be resumed: "
                f"start from its weights with --init-ckpt {path} and another exp_id"
            )
        return header
    good = [item for item in _checkpoints(folder) if item != path and _can_be_resumed(item)]
    if good:
        name = good[0].relative_to(RunFolder(folder).checkpoints).as_posix()
        way = f"The newest good file is {name}: resume it with {exp_id}@{name}"
    else:
        way = "There is no other good checkpoint in the folder"
    raise ValueError(
        f"{path} {problem}. {way}; or start anew with AMT_FORCE_SCRATCH=1 (old files are kept aside)"
    )


def _can_be_resumed(path: Path) -> bool:
    header = read_header(path) if diagnose_file(path) is None else None
    return header is not None and header.step is not None and header.complete


def _init_file(init_ckpt: str, folder: Path) -> Path:
    path = named_path(init_ckpt)
    word, at, _ = init_ckpt.partition("@")
    if not path.exists() and at and "/" not in word:
        log_dir, project = folder.parent.parent, folder.parent.name
        try:
            own = (log_dir / project / split_exp_id(init_ckpt)[0]).is_dir()
            path = find_checkpoint(init_ckpt, log_dir=log_dir, project=project if own else None)
        except ValueError as error:
            raise ValueError(f"--init-ckpt {init_ckpt}: {error}") from None
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ValueError(
            f"--init-ckpt {init_ckpt} {kind}; give RUN@last or a checkpoint file{from_above(path)}, or leave "
            "it out to start from scratch"
        )
    problem = diagnose_file(path)
    if problem is not None:
        raise ValueError(f"--init-ckpt {init_ckpt} {problem}")
    return path


def _refuse_orphans(folder: Path, exp_id: str) -> None:
    """Checkpoints without a ``last.ckpt`` could mean resume or scratch: nobody guesses."""
    there = _checkpoints(folder)
    if there:
        name = there[0].relative_to(RunFolder(folder).checkpoints).as_posix()
        raise ValueError(
            f"{_listing(folder, there)}, but no {LAST_NAME}: resume one with e.g. {exp_id}@{name}, "
            "or start anew with AMT_FORCE_SCRATCH=1 (old files are kept aside)"
        )


def _refuse_stale_last(folder: Path, exp_id: str, last: Header) -> None:
    """A file that goes on from ``last.ckpt`` means that an older ``last.ckpt`` was put back by hand."""
    home = RunFolder(folder).checkpoints
    for path in home.glob("*.ckpt"):
        step = re.search(r"(?:^|-)step=(\d+)(?=-|\.ckpt$)", path.name)
        if step is None or last.step is None or int(step[1]) <= last.step or not last.lineage:
            continue
        header = read_header(path)
        if header is not None and header.lineage and header.descends_from(last):
            raise ValueError(
                f"{LAST_NAME} of {exp_id} is at step {last.step}, but {path.name} goes on from it to step "
                f"{header.step}: say which one to resume, {exp_id}@{path.name} or {exp_id}@{LAST_NAME}"
            )


def _other_splits(folder: Path, exp_id: str, name: str) -> list[Path]:
    """Files that ``exp_id@name`` means when an earlier ``@`` splits it."""
    found = []
    for place, char in enumerate(exp_id):
        if char == "@" and place:
            home = RunFolder(folder.parent / exp_id[:place]).checkpoints
            path = find_named(home, f"{exp_id[place + 1 :]}@{name}")
            found += [] if path is None else [path]
    return found


def _checkpoints(folder: Path) -> list[Path]:
    """The run's checkpoint files, newest step first; those of unknown step by time of writing."""
    home = RunFolder(folder).checkpoints
    if not home.is_dir():
        return []
    paths = [path for path in home.rglob("*.ckpt") if path.is_file()]

    def newness(path: Path) -> tuple[int, float]:
        header = read_header(path)
        step = -1 if header is None or header.step is None else header.step
        return step, path.stat().st_mtime

    return sorted(paths, key=newness, reverse=True)


def _listing(folder: Path, there: list[Path]) -> str:
    home = RunFolder(folder).checkpoints
    if not there:
        return f"there are no checkpoints in {home}"
    names = [path.relative_to(home).as_posix() for path in there]
    return f"in {home} there is {listing(names, _MAX_LISTED)}"
