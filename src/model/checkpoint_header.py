"""What a checkpoint file is and how far it got, read without torch and without trusting it."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

CALLBACK_KEY = "CustomModelCheckpoint"
"""Name under which the checkpoint callback's state stands in a file's ``callbacks``."""
SAFETENSORS_SUFFIX = ".safetensors"
"""Ending by which a file of weights alone, from ``amt-export``, is known."""
_MAX_HEADER_BYTES = 100_000_000
"""Longest header of a safetensors file that is read, the limit of the format's own library."""


@dataclass(frozen=True)
class Header:
    """The place of a checkpoint in its run."""

    step: int | None
    epoch: int | None
    complete: bool
    """Whether optimizer and loop state are there, so that the file can be resumed."""
    lineage: tuple[tuple[str, int], ...]
    """The starts this state went through, oldest first: (id of the start, step it began at)."""
    ranking: tuple[str, ...]
    """Names of the best files, best first, when the file was written."""
    experiment: str = ""
    """The run's configuration as JSON; empty when the file holds none."""

    @property
    def exp_id(self) -> str:
        """Name of the run when the file was written; empty when the file does not say."""
        try:
            name = json.loads(self.experiment)["exp_id"]
        except (ValueError, KeyError, TypeError):
            return ""
        return name if isinstance(name, str) else ""

    def is_of_another_run(self, other: Header) -> bool:
        """Whether both say where they began, and that is not the same start."""
        return bool(self.lineage and other.lineage) and self.lineage[0] != other.lineage[0]

    def descends_from(self, other: Header) -> bool:
        """Whether training went on from ``other``'s state to this one; files that do not say are compared
        by step."""
        if self.step is None or other.step is None or self.step <= other.step:
            return False
        if not self.lineage or not other.lineage:
            return True
        shared = len(other.lineage)
        if self.lineage[:shared] != other.lineage:
            return False
        return len(self.lineage) == shared or self.lineage[shared][1] >= other.step


def diagnose_file(path: Path) -> str | None:
    """None when ``path`` can be a checkpoint of ours, else what is wrong, as the rest of a sentence.

    Tells apart what users meet: an empty file, a cut one, a Git LFS pointer, a web page, a broken link.
    The archive's directory stands at its end, so a file that was cut anywhere is found.
    """
    try:
        if path.is_dir():
            return "is a folder, not a checkpoint file"
        if path.is_symlink() and not path.exists():
            return "is a link to a file that is gone"
        with open(path, "rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if not head:
        return "is empty (0 bytes)"
    if head.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the file itself (run `git lfs pull` where it came from)"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "is a web page (HTML), not a checkpoint: the download went to an error or login page"
    if path.suffix == SAFETENSORS_SUFFIX:
        return None if _safetensors_metadata(path) is not None else "is cut off or no safetensors file"
    if not head.startswith(b"PK\x03\x04"):
        if head.startswith(b"\x80") or b"ustar" in head:
            return "is in torch's old format before 1.6, which is not read"
        return "is not a checkpoint (no zip archive)"
    try:
        with zipfile.ZipFile(path) as archive:
            if not any(name.endswith("/data.pkl") for name in archive.namelist()):
                return "is a zip archive but no checkpoint (it has no data.pkl)"
    except (zipfile.BadZipFile, OSError, EOFError, ValueError):
        return "is cut off (its zip directory is missing: killed while copying, or an incomplete download)"
    return None


def read_header(path: Path) -> Header | None:
    """The header of a checkpoint file of Lightning's, or None when ``path`` is none.

    Only plain values are taken from the file's pickle; tensors stay unread and any other class in it
    becomes an inert placeholder, so nothing of the file is executed. Of a safetensors file it is what the
    metadata say.
    """
    if path.suffix == SAFETENSORS_SUFFIX:
        return _safetensors_header(_safetensors_metadata(path))
    try:
        with zipfile.ZipFile(path) as archive:
            member = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            loaded = _PlainUnpickler(io.BytesIO(archive.read(member))).load()
    except (OSError, zipfile.BadZipFile, StopIteration, EOFError, ValueError, pickle.UnpicklingError):
        return None
    except (AttributeError, IndexError, KeyError, TypeError, MemoryError, OverflowError):
        return None  # what a pickle that is not one of torch's leads to
    if not isinstance(loaded, dict):
        return None
    callbacks = loaded.get("callbacks")
    state = callbacks.get(CALLBACK_KEY) if isinstance(callbacks, dict) else None
    state = state if isinstance(state, dict) else {}
    return Header(
        step=_integer(loaded.get("global_step")),
        epoch=_integer(loaded.get("epoch")),
        complete="optimizer_states" in loaded and "loops" in loaded,
        lineage=parse_lineage(state.get("lineage")),
        ranking=tuple(name for name, _, _ in parse_ranking(state.get("ranking"))),
        experiment=_text(loaded.get("experiment")),
    )


def _safetensors_header(metadata: dict[str, str] | None) -> Header | None:
    if metadata is None or "experiment" not in metadata:
        return None
    step, epoch = (
        int(text) if text.isdecimal() else None
        for text in (metadata.get("global_step", ""), metadata.get("epoch", ""))
    )
    return Header(step, epoch, False, (), (), metadata["experiment"])


def _safetensors_metadata(path: Path) -> dict[str, str] | None:
    """The texts in the header of a safetensors file: eight bytes of length, then JSON, then the tensors. None
    when the file is none or ends too early."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            rest = path.stat().st_size - 8 - length
            if not 2 <= length <= _MAX_HEADER_BYTES or rest < 0:
                return None
            header = json.loads(file.read(length))
        metadata = header.pop("__metadata__", {})
        complete = rest >= max((item["data_offsets"][1] for item in header.values()), default=0)
        return {str(name): str(value) for name, value in metadata.items()} if complete else None
    except (OSError, ValueError, AttributeError, KeyError, IndexError, TypeError, RecursionError):
        return None


def parse_lineage(value: object) -> tuple[tuple[str, int], ...]:
    """The lineage out of a file's plain lists; empty when it is not one."""
    if not isinstance(value, (list, tuple)):
        return ()
    pairs = [tuple(item) for item in value if isinstance(item, (list, tuple)) and len(item) == 2]
    return tuple((str(start), int(step)) for start, step in pairs)


def parse_ranking(value: object) -> list[tuple[str, float, int]]:
    """The ranking (name, score, step) out of a file's plain lists; rows that are none are left out."""
    if not isinstance(value, (list, tuple)):
        return []
    rows = [item for item in value if isinstance(item, (list, tuple)) and len(item) == 3]
    return [(str(name), float(score), int(step)) for name, score, step in rows]


def sidecar_path(checkpoint: Path) -> Path:
    """The JSON file beside a checkpoint: ``last.ckpt`` has ``last.json``."""
    return checkpoint.with_name(checkpoint.name.removesuffix(".ckpt") + ".json")


def read_sidecar(checkpoint: Path) -> dict[str, Any] | None:
    """What the JSON file beside ``checkpoint`` says, or None when there is none or it is of another file."""
    try:
        loaded = json.loads(sidecar_path(checkpoint).read_text(encoding="utf-8"))
        size, crc = file_stamp(checkpoint)
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    same = isinstance(loaded, dict) and (loaded.get("size"), loaded.get("crc")) == (size, crc)
    return loaded if same else None


def file_stamp(checkpoint: Path) -> tuple[int, int]:
    """Size in bytes and CRC-32 of the pickle of a checkpoint: tells two steps' files apart, also copied ones.

    Raises:
        ValueError: when the file is no checkpoint.
    """
    with zipfile.ZipFile(checkpoint) as archive:
        crc = next((item.CRC for item in archive.infolist() if item.filename.endswith("/data.pkl")), None)
    if crc is None:
        raise ValueError(f"{checkpoint} is a zip archive but no checkpoint")
    return checkpoint.stat().st_size, crc


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class InertObject:
    """Stands for every object of a pickle that is no plain value."""

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        return super().__new__(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __call__(self, *args: object, **kwargs: object) -> InertObject:
        return self

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, item: object) -> None:
        pass

    def extend(self, items: object) -> None:
        pass

    def add(self, item: object) -> None:
        pass


class PlainOrderedDict(dict[Any, Any]):
    """An ordered dictionary that may carry attributes (a state dict's ``_metadata``)."""


class _PlainUnpickler(pickle.Unpickler):
    """Reads the plain part of a pickle and imports nothing."""

    def find_class(self, module: str, name: str) -> Any:
        return PlainOrderedDict if (module, name) == ("collections", "OrderedDict") else InertObject

    def persistent_load(self, pid: object) -> Any:
        return None
