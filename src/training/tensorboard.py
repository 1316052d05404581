"""The run's numbers as TensorBoard event files (``--tensorboard``), written without its package.

A file is a series of records (length, its checksum, bytes, their checksum), each of which is an ``Event``
message of TensorBoard's protocol in protobuf encoding; both formats are public and have not changed for
years. Only scalars are written.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from .file_loggers import FileLogger

_SESSION_START = 1
_LARGEST_FLOAT = 3.4028234663852886e38


class TensorBoardLogger(FileLogger):
    """Appends every logged number to an event file; each start of a run begins a file of its own.

    Args:
        folder: of the event files.
        project: shown as the logger's name.
        exp_id: shown as its version.
        resume_step: when resuming, TensorBoard drops what older files say of later steps.
    """

    def __init__(self, folder: Path, project: str, exp_id: str, resume_step: int | None = None) -> None:
        super().__init__(folder, project, exp_id)
        self._resume_step = resume_step
        self._path: Path | None = None

    def write(self, row: dict[str, float]) -> None:
        """See :meth:`FileLogger.write`; appends one event."""
        numbers = {key: value for key, value in row.items() if key not in ("step", "epoch")}
        if numbers:
            self._append([event(time.time(), int(row.get("step", 0)), scalars=numbers)])

    def _append(self, events: list[bytes]) -> None:
        if self._path is None:
            now = time.time()
            self.target.mkdir(parents=True, exist_ok=True)
            name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
            self._path = self.target / name
            start = [event(now, 0, file_version="brain.Event:2")]
            if self._resume_step is not None:
                start.append(event(now, self._resume_step + 1, session_status=_SESSION_START))
            events = [*start, *events]
        with open(self._path, "ab") as file:
            file.write(b"".join(record(item) for item in events))


def event(
    wall_time: float,
    step: int,
    *,
    file_version: str = "",
    session_status: int = 0,
    scalars: Mapping[str, float] | None = None,
) -> bytes:
    """An ``Event`` message: time, step, and one of its contents."""
    message = _key(1, 1) + struct.pack("<d", wall_time) + _key(2, 0) + _varint(step)
    if file_version:
        message += _bytes(3, file_version.encode())
    if session_status:
        message += _bytes(7, _key(1, 0) + _varint(session_status))
    if scalars:
        values = (
            _bytes(1, _bytes(1, tag.encode()) + _key(2, 5) + struct.pack("<f", _finite_float(value)))
            for tag, value in scalars.items()
        )
        message += _bytes(5, b"".join(values))
    return message


def record(message: bytes) -> bytes:
    """A message as it stands in a file, between its length and checksums."""
    length = struct.pack("<Q", len(message))
    return b"".join(part + struct.pack("<I", _masked(crc32c(part))) for part in (length, message))


def crc32c(data: bytes) -> int:
    """Castagnoli's cyclic redundancy check of ``data``."""
    check = 0xFFFFFFFF
    for byte in data:
        check = _TABLE[(check ^ byte) & 0xFF] ^ (check >> 8)
    return check ^ 0xFFFFFFFF


def _masked(check: int) -> int:
    return (((check >> 15) | (check << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _table_row(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = tuple(_table_row(value) for value in range(256))


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, content: bytes) -> bytes:
    return _key(number, 2) + _varint(len(content)) + content


def _finite_float(value: float) -> float:
    """Infinity where 32 bits cannot hold the value."""
    return math.copysign(math.inf, value) if abs(value) > _LARGEST_FLOAT else value
