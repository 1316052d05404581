"""The folder of a run: what lies where, whole-or-nothing file writes, and moving old files aside.

Standard library only. Layout::

    logs/<project>/<exp_id>/
        checkpoints/     last.ckpt, its last.json, the best files, preval-step=N.ckpt, step=N.ckpt
        config.json      the run's Experiment and where each value came from
        metrics.csv      everything that was logged
        tensorboard/     the same for TensorBoard, with --tensorboard
        wandb_id.txt     id of the W&B run, so that a resumed run goes on in the same one
        outputs/         what validation writes (MIDI)
        faults.txt       which drills of AMT_FAULT have struck here
        .lock            held while a run writes here; empty
        previous-1/ ...  what AMT_FORCE_SCRATCH moved aside
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..data.file_lock import take_lock
from ..model.checkpoint_names import CHECKPOINTS, LAST_NAME
from ..model.checkpoint_write import sync_folder, write_text

LOCK_NAME = ".lock"
_PREVIOUS = re.compile(r"previous-(\d+)")
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run below ``root`` (``logs/<project>/<exp_id>``)."""

    root: Path

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoint files."""
        return self.root / CHECKPOINTS

    @property
    def last(self) -> Path:
        """The newest state of the run."""
        return self.checkpoints / LAST_NAME

    @property
    def config(self) -> Path:
        """The run's configuration as JSON."""
        return self.root / "config.json"

    @property
    def metrics(self) -> Path:
        """CSV file of everything that was logged."""
        return self.root / "metrics.csv"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's event files."""
        return self.root / "tensorboard"

    @property
    def wandb_id(self) -> Path:
        """Text file with the id of the W&B run."""
        return self.root / "wandb_id.txt"

    @property
    def outputs(self) -> Path:
        """Folder of the files that validation writes."""
        return self.root / "outputs"

    @property
    def faults(self) -> Path:
        """Text file with the faults of ``AMT_FAULT`` that have struck."""
        return self.root / "faults.txt"

    def create(self) -> None:
        """Make the folders; existing ones are left alone.

        Raises:
            ValueError: when they cannot be made, with the folder's name.
        """
        self._make(self.checkpoints, self.outputs)

    def _make(self, *folders: Path) -> None:
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ValueError(
                f"the run folder {self.root} cannot be made ({reason}); "
                "choose another place with AMT_LOG_DIR or another exp_id"
            ) from error

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs out of the folder meanwhile; the system ends that when this process dies.

        Raises:
            ValueError: another run is in the folder, or it cannot be made.
        """
        self._make(self.root)
        with open(self.root / LOCK_NAME, "ab") as file:
            take_lock(
                file,
                f"another run is writing in {self.root}: wait for it or stop it, or choose another exp_id",
            )
            os.register_at_fork(after_in_child=file.close)  # loaders may outlive a run that was killed
            yield


def previous_folders(root: Path) -> list[Path]:
    """The ``previous-N`` folders in ``root``, oldest first."""
    if not root.is_dir():
        return []
    found = [(int(match[1]), entry) for entry in root.iterdir() if (match := _PREVIOUS.fullmatch(entry.name))]
    return [entry for _, entry in sorted(found)]


def old_files(root: Path) -> list[Path]:
    """What a run left in ``root``, earlier ``previous-N`` folders and the lock aside; empty when there is no
    folder."""
    if not root.is_dir():
        return []
    return sorted(
        entry for entry in root.iterdir() if not _PREVIOUS.fullmatch(entry.name) and entry.name != LOCK_NAME
    )


def move_aside(root: Path) -> Path | None:
    """Move everything a run left in ``root`` to a new ``previous-N`` inside it; nothing is deleted.

    ``checkpoints/`` goes first and in one rename, so a kill half-way never leaves a ``last.ckpt`` that
    belongs to the old run without its other files.

    Returns:
        The new folder, or None when there was nothing to move.
    """
    entries = old_files(root)
    if not entries:
        return None
    numbers = [int(folder.name.removeprefix("previous-")) for folder in previous_folders(root)]
    target = root / f"previous-{max(numbers, default=0) + 1}"
    target.mkdir()
    for entry in sorted(entries, key=lambda entry: entry.name != CHECKPOINTS):
        os.replace(entry, target / entry.name)
    sync_folder(root)
    return target


def write_config(root: Path, text: str) -> Path:
    """Write ``text`` as the run's ``config.json``, whole or not at all, and return its path."""
    path = RunFolder(root).config
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def remove_stale_temporaries(folder: Path) -> list[str]:
    """Delete what a killed ``replaced_file`` left in ``folder``; returns the names."""
    removed: list[str] = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if _TEMPORARY.fullmatch(entry.name) and entry.is_file():
            with contextlib.suppress(OSError):
                entry.unlink()
                removed.append(entry.name)
    return removed
