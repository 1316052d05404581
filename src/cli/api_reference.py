"""The reference of ``docs/api.md``: signatures and docstrings of the public face."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path("docs") / "api.md"
PUBLIC: dict[str, tuple[str, ...]] = {
    "amt.notes": ("Note", "read_midi", "write_midi"),
    "amt.config": (
        "get_task",
        "list_tasks",
        "add_task",
        "get_preset",
        "list_presets",
        "add_preset",
        "Experiment.to_json",
        "Experiment.from_json",
    ),
    "amt.tokenizer": (
        "NoteTokenizer",
        "NoteTokenizer.from_task",
        "NoteTokenizer.from_experiment",
        "NoteTokenizer.target_notes",
        "NoteTokenizer.encode",
        "NoteTokenizer.decode",
        "DecodeResult",
    ),
    "amt.evaluation": ("score_notes",),
    "amt.model": (
        "build_model",
        "build_from",
        "Transcriber.encode",
        "Transcriber.forward",
        "Transcriber.generate",
        "convert_checkpoint",
        "export_checkpoint",
        "export_weights",
        "export_graphs",
    ),
    "amt.inference": (
        "load_transcriber",
        "SongTranscriber.transcribe",
        "SongTranscriber.transcribe_songs",
        "Transcription",
        "DecodingChoices",
    ),
    "amt.optim": ("build_optimizer", "build_scheduler"),
}
"""Names that keep their meaning between versions, by module; methods behind their class."""
_WIDE = 100


def api_reference() -> str:
    """Every public name with its signature and what its docstring says."""
    return "\n\n".join(
        part for module, names in PUBLIC.items() for part in (f"### {module}", *_entries(module, names))
    )


def resolve(module: str, name: str) -> Any:
    """The object of a public name."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _entries(module: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        found = resolve(module, name)
        yield f"#### {name}"
        yield f"```text\n{_call(name, found)}\n```"
        yield _markdown(inspect.getdoc(found) or "")


def _call(name: str, found: Any) -> str:
    """Name and parameters as they are called: without ``self``."""
    signature = inspect.signature(found)
    given = [_shown(item) for item in signature.parameters.values() if item.name not in ("self", "cls")]
    result = signature.return_annotation
    returns = "" if inspect.isclass(found) or result is signature.empty else f" -> {_Text(result)}"
    line = f"{name}{inspect.Signature(given)}{returns}"
    if len(line) <= _WIDE:
        return line
    inner = [str(item) for item in given]
    first = next((i for i, item in enumerate(given) if item.kind is item.KEYWORD_ONLY), None)
    if first is not None:
        inner.insert(first, "*")
    return f"{name}(\n" + "".join(f"    {item},\n" for item in inner) + f"){returns}"


class _Text:
    """Shown as it was written, without quotes."""

    def __init__(self, written: object) -> None:
        self.written = getattr(written, "__forward_arg__", written)

    def __repr__(self) -> str:
        return str(self.written)


def _shown(item: inspect.Parameter) -> inspect.Parameter:
    """A parameter whose annotation is its source, and without the fields of a record that is its default."""
    if item.annotation is not item.empty:
        item = item.replace(annotation=_Text(item.annotation))
    if dataclasses.is_dataclass(item.default):
        item = item.replace(default=_Text(f"{type(item.default).__name__}()"))
    return item


def _markdown(text: str) -> str:
    """A docstring as Markdown: its sections as lists, its marks as code."""
    text = re.sub(r":\w+:`~?\.*(?:[\w.]*\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    lines: list[str] = []
    in_section = False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Returns|Yields):", line):
            in_section = True
            lines += [f"**{line[:-1]}**", ""]
        elif in_section and (item := re.fullmatch(r"    (\*{0,2}\w+(?:, \w+)*): (.*)", line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif in_section and line.strip():
            if lines[-1]:
                lines[-1] += f" {line.strip()}"
            else:
                lines.append(f"- {line.strip()}")
        else:
            lines.append(line)
    return "\n".join(lines).strip()
