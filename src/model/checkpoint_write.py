"""Writing files whole or not at all, and checkpoint files of tensors and plain types only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class CheckpointWriteError(OSError):
    """A checkpoint could not be written (disk full, quota, lost drive); the previous file is whole."""


def write_checkpoint(
    checkpoint: Mapping[str, Any], path: Path, watch: Callable[[BinaryIO, int], None] | None = None
) -> None:
    """Write ``checkpoint`` to ``path``, whole or not at all; what goes in is checked by :func:`check_plain`.

    Args:
        checkpoint: tensors and plain types.
        path: the file; its folder is made.
        watch: called after each piece with the file and the bytes so far; an ``OSError`` it raises counts
            as the file system's.

    Raises:
        CheckpointWriteError: when the file system refuses; a file that was at ``path`` is still there.
        TypeError: when something in ``checkpoint`` is neither tensor nor plain.
    """
    import torch

    plain = check_plain(checkpoint)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as file:
            sink = _Sink(file, watch)
            torch.save(plain, cast(Any, sink))
            sink.raise_error()
    except OSError as error:
        raise CheckpointWriteError(error.errno, error.strerror or str(error), str(path)) from error


def check_plain(obj: Any, where: str = "checkpoint") -> Any:
    """``obj`` rebuilt from tensors and plain types, which is what a checkpoint may hold.

    Mappings become dict, sequences list or tuple, numpy scalars and subclasses of int, float and str
    (enums) the plain value; parameters become tensors. Tensors are not copied.

    Raises:
        TypeError: for anything else, naming the place.
    """
    import torch

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


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes ``path`` when the block ends without an error.

    The bytes go to a temporary file in the same folder, are flushed and synced to the disk, then renamed
    over ``path``, and the folder is synced: a kill or a power cut at any instant leaves the old file or
    the new one, both whole. A link at ``path`` is replaced, not followed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in UTF-8, whole or not at all."""
    with replaced_file(path) as file:
        file.write(text.encode("utf-8"))


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable, where the file system can (some network drives cannot)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Sink:
    """A file for ``torch.save`` that never raises: torch's writer aborts the process when a write fails.

    The first error is kept, later bytes are dropped, and :meth:`raise_error` raises it afterwards.
    """

    def __init__(self, file: BinaryIO, watch: Callable[[BinaryIO, int], None] | None) -> None:
        self._file = file
        self._watch = watch
        self._written = 0
        self._error: OSError | None = None

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._error is None:
            try:
                self._file.write(data)
                self._written += size
                if self._watch is not None:
                    self._watch(self._file, self._written)
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
