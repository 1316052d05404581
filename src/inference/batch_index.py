"""What a folder of transcriptions holds: files that are finished, by which checkpoint, with which options.

The index is a file of JSON lines in the output folder. A line is added after the outputs of a file have their
names, so a run killed at any moment has at most files whose line is missing; they are made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from ..data.file_lock import take_lock
from .choices import DecodingChoices
from .planning import Job

INDEX_NAME = ".amt_batch.jsonl"
INDEX_FORMAT = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a file."""

    audio: Path
    notes: int = 0
    duration: float = 0.0
    """Seconds of sound."""
    malformed: int = 0
    """Malformed tokens that were dropped."""
    outputs: dict[Path, int] = field(default_factory=dict)
    """Path of each, and its size in bytes."""
    reason: str = ""
    """Why it could not be transcribed; empty when it was."""
    remarks: tuple[str, ...] = ()
    """What is odd about its sound: that it ends before its header says, and the like."""

    @property
    def ok(self) -> bool:
        """Whether its outputs are there."""
        return not self.reason


def batch_facts(checkpoint: Path, choices: DecodingChoices, formats: tuple[str, ...]) -> dict[str, Any]:
    """What decides the outputs of a batch, as plain values: the checkpoint's bytes and the options."""
    with checkpoint.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    options = {key: value for key, value in asdict(choices).items() if key != "batch_size"}
    options["format"] = sorted(formats)
    facts: dict[str, Any] = json.loads(json.dumps({"checkpoint": digest, "options": options}))
    return facts


class BatchIndex:
    """The index of an output folder, held open and locked; use it in a ``with`` block.

    Args:
        out: the output folder; it exists.
        facts: of :func:`batch_facts`.
        again: forget what is finished.

    Raises:
        ValueError: the folder holds transcriptions by another checkpoint or with other options, its index
            cannot be read, or another process is writing there.
    """

    def __init__(self, out: Path, facts: Mapping[str, Any], *, again: bool = False) -> None:
        self._out = out
        path = out / INDEX_NAME
        self._file: IO[bytes] = open(path, "a+b")  # noqa: SIM115 (closed by __exit__)
        try:
            take_lock(
                self._file, f"another process is transcribing into {out}; wait for it or choose another -o"
            )
            self._file.seek(0)
            lines = self._file.read().splitlines(keepends=True)
            # What was killed while writing a line has the start of it at the end.
            whole = [line for line in lines if line.endswith(b"\n")]
            self._file.truncate(sum(map(len, whole)))
            self.entries = {} if again else _read(path, whole, facts)
            if again or not whole:
                self._file.truncate(0)
                self._write({"amt_batch": INDEX_FORMAT, **facts})
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def stems(self) -> dict[Path, Path]:
        """Input to the path of its outputs without extension, of all files finished so far."""
        return {Path(audio): self._out / entry["stem"] for audio, entry in self.entries.items()}

    def finished(self, job: Job) -> Outcome | None:
        """What is known of a file whose outputs are as they were written, and which has not changed since."""
        entry = self.entries.get(str(job.audio))
        if entry is None or entry["input"] != [str(job.audio), *_stamp(job.audio)]:
            return None
        outputs = {self._out / name: size for name, size in entry["outputs"].items()}
        if any(not path.exists() or output_size(path) != size for path, size in outputs.items()):
            return None
        remarks = tuple(entry.get("remarks", ()))  # entries of earlier versions have none
        return Outcome(
            job.audio, entry["notes"], entry["duration"], entry["malformed"], outputs, remarks=remarks
        )

    def add(self, job: Job, outcome: Outcome) -> None:
        """A file is finished."""
        assert outcome.ok
        entry: dict[str, Any] = {
            "input": [str(job.audio), *_stamp(job.audio)],
            "stem": os.path.relpath(job.stem, self._out),
            "outputs": {os.path.relpath(path, self._out): size for path, size in outcome.outputs.items()},
            "notes": outcome.notes,
            "duration": outcome.duration,
            "malformed": outcome.malformed,
            "remarks": outcome.remarks,
        }
        self.entries[str(job.audio)] = entry
        self._write(entry)


def output_size(path: Path) -> int:
    """Bytes of a file, or of the files in a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.iterdir())
    return path.stat().st_size


def _stamp(audio: Path) -> tuple[int, int]:
    """Size and time of the last change of a file; zeros when it cannot be seen."""
    try:
        found = audio.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def _read(path: Path, lines: list[bytes], facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries by their input."""
    if not lines:
        return {}
    try:
        head, *rest = [json.loads(line) for line in lines]
        version = head["amt_batch"]
        entries = {entry["input"][0]: entry for entry in rest}
        before = {"checkpoint": head["checkpoint"], **head["options"]}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} cannot be read ({error}); --again transcribes everything anew") from None
    if version != INDEX_FORMAT:
        raise ValueError(f"{path} has format {version}, this version writes {INDEX_FORMAT}; use --again")
    now = {"checkpoint": facts["checkpoint"], **facts["options"]}
    changed = [
        f"{key} {_show(before.get(key))}, now {_show(value)}"
        for key, value in now.items()
        if before.get(key) != value
    ]
    if changed:
        raise ValueError(
            f"{path.parent} holds transcriptions made otherwise ({'; '.join(changed)}): --again makes all "
            "anew, or choose another -o"
        )
    return entries


def _show(value: object) -> str:
    if value is None:
        return "not given"
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{text[:12]}..." if len(text) == 64 else text or "none"
