"""Writing and reading checkpoint files: whole or not at all, tensors and plain types only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO

from ..model.checkpoint_file import read_checkpoint
from .faults import fault_point
from .run_folder import replaced_file

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_FAULT_AFTER_BYTES = 1024


class CheckpointWriteError(OSError):
    """A checkpoint could not be written (disk full, quota, lost drive); the previous file is whole."""


class AtomicCheckpointIO(CheckpointIO):
    """Lightning's door to checkpoint files.

    Saves to a temporary file in the same folder, syncs and renames it, so that a kill at any instant
    leaves the previous file or the new one. What goes in is checked by :func:`check_plain`; what comes
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
        plain = check_plain(checkpoint)
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replaced_file(target) as file:
                sink = _Sink(file, self.fault)
                torch.save(plain, cast(Any, sink))
                sink.raise_error()
        except OSError as error:
            raise CheckpointWriteError(error.errno, error.strerror or str(error), str(target)) from error

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """See :func:`read_checkpoint`; the two options of Lightning's are fixed to the CPU and True."""
        return read_checkpoint(path)

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


def check_plain(obj: Any, where: str = "checkpoint") -> Any:
    """``obj`` rebuilt from tensors and plain types, which is what a checkpoint may hold.

    Mappings become dict, sequences list or tuple, numpy scalars and subclasses of int, float and str
    (enums) the plain value; parameters become tensors. Tensors are not copied.

    Raises:
        TypeError: for anything else, naming the place.
    """
    if type(obj) in _PLAIN:
        return obj
    if isinstance(obj, torch.Tensor):
        if type(obj) not in (torch.Tensor, torch.nn.Parameter):
            raise TypeError(f"{where} is a {type(obj).__name__}; a checkpoint holds ordinary tensors only")
        return obj.detach()
    if isinstance(obj, Mapping):
        pairs = ((check_plain(key, f"a key of {where}"), key, item) for key, item in obj.items())
        return {plain: check_plain(item, f"{where}[{key!r}]") for plain, key, item in pairs}
    if isinstance(obj, (list, tuple, set, frozenset)):
        items = [check_plain(item, f"{where}[{index}]") for index, item in enumerate(obj)]
        return items if isinstance(obj, list) else tuple(items) if isinstance(obj, tuple) else set(items)
    for kind in (int, float, str):
        if isinstance(obj, kind):
            return kind(obj.value) if hasattr(obj, "value") else kind(obj)
    if type(obj).__module__ == "numpy" and getattr(obj, "ndim", None) == 0 and hasattr(obj, "item"):
        return obj.item()
    raise TypeError(f"{where} is a {type(obj).__name__}; a checkpoint holds tensors and plain types only")


class _Sink:
    """A file for ``torch.save`` that never raises: torch's writer aborts the process when a write fails.

    The first error is kept, later bytes are dropped, and :meth:`raise_error` raises it afterwards.
    """

    def __init__(self, file: BinaryIO, fault: str) -> None:
        self._file = file
        self._fault = fault
        self._written = 0
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._error is None:
            try:
                self._file.write(data)
                self._written += size
                if self._fault and self._written > _FAULT_AFTER_BYTES:
                    self._file.flush()
                    fault_point("save", self._fault)
            except OSError as error:
                self._error = error
        return size

    def flush(self) -> None:
        if self._error is None:
            try:
                self._file.flush()
            except OSError as error:
                self._error = error

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error
