"""Writing and reading checkpoint files: whole or not at all, tensors and plain types only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO

from ..model.checkpoint_file import read_checkpoint
from ..model.checkpoint_write import CheckpointWriteError, replaced_file, write_checkpoint
from .faults import fault_point

_FAULT_AFTER_BYTES = 1024


class AtomicCheckpointIO(CheckpointIO):
    """Lightning's door to checkpoint files.

    Saves to a temporary file in the same folder, syncs and renames it, so that a kill at any instant
    leaves the previous file or the new one. What goes in is checked by ``check_plain``; what comes
    out was loaded with ``weights_only=True`` on the CPU, whatever the caller asks for.

    Args:
        fault: value of ``AMT_FAULT``; ``kill@save`` kills the process in the middle of each write,
            ``full-disk@save`` makes each write fail as on a full disk. Others concern other places.
    """

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | os.PathLike[str], storage_options: Any | None = None
    ) -> None:
        """Write ``checkpoint`` to ``path``.

        Raises:
            CheckpointWriteError: when the file system refuses; a file that was at ``path`` is still there.
            TypeError: when something in ``checkpoint`` is neither tensor nor plain.
        """
        assert storage_options is None, "checkpoints are written to local paths, without storage options"
        write_checkpoint(checkpoint, Path(path), self._strike if self.fault else None)

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """See :func:`read_checkpoint`; the two options of Lightning's are fixed to the CPU and True."""
        return read_checkpoint(path)

    def _strike(self, file: BinaryIO, written: int) -> None:
        if written > _FAULT_AFTER_BYTES:
            file.flush()
            fault_point("save", self.fault)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Delete ``path`` if it is there."""
        Path(path).unlink(missing_ok=True)


def copy_file(source: Path, target: Path) -> None:
    """Copy the bytes of ``source`` to ``target``, whole or not at all; a real file, never a link.

    Raises:
        CheckpointWriteError: when the file system refuses; an older ``target`` is still there.
    """
    try:
        with open(source, "rb") as read, replaced_file(target) as file:
            shutil.copyfileobj(read, file, 1 << 20)
    except OSError as error:
        raise CheckpointWriteError(error.errno, error.strerror or str(error), str(target)) from error
