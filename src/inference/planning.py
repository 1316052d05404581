"""Which files to transcribe, and what their outputs are called."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..audio import is_audio_file, looks_like_audio
from .files import output_stems

MIDI_ENDINGS = (".mid", ".midi")
ENDING = "_transcribed"
"""Added to the names of outputs that lie beside their input."""
_OWN = re.compile(rf"(?P<input>.+){ENDING}( \([0-9]+\))?")


@dataclass(frozen=True)
class Job:
    """One file to transcribe."""

    audio: Path
    stem: Path
    """Path of its outputs without their extension."""
    reference: Path | None = None
    """MIDI file with the true notes; one that cannot be read is named and left out."""


def plan_jobs(
    inputs: Sequence[Path],
    out: Path | None,
    reference: Path | None = None,
    *,
    kept: Mapping[Path, Path] | None = None,
    reserved: Iterable[Path] = (),
) -> list[Job]:
    """Which files to transcribe and where their outputs go; no output overwrites another or a reference.

    Args:
        inputs: audio files, and folders that are searched for them; what lies in ``out`` is left out when
            that is another folder than the one searched.
        out: folder of the outputs, in which sub-folders of searched folders are mirrored; ``None`` is
            beside each input.
        reference: MIDI file of the one input; ``None`` takes one beside the audio.
        kept, reserved: see :func:`~.files.output_stems`.

    Raises:
        ValueError: an input that is missing, a folder without audio, a reference with several inputs.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; the outputs need a folder (-o FOLDER)")
    audios: list[Path] = []
    below: list[Path] = []
    for item in inputs:
        if os.path.isdir(item):  # os.path takes names of any length
            found = _audio_below(item, out)
            if not found:
                raise ValueError(f"{item} holds no audio file")
            audios += found
            below += [path.parent.relative_to(item) for path in found]
        elif os.path.exists(item):
            audios.append(item)
            below.append(Path())
        elif item == Path("-"):
            raise ValueError("- is standard input, which is not read: give the path of an audio file")
        else:
            raise ValueError(f"{item} does not exist")
    if not audios:
        raise ValueError("no audio file given")
    first = {os.path.abspath(audio): place for place, audio in reversed(list(enumerate(audios)))}
    places = sorted(first.values())  # of files that are given twice, the first time
    audios, below = [audios[place] for place in places], [below[place] for place in places]
    if reference is not None:
        if len(audios) > 1:
            raise ValueError(f"--reference {reference} belongs to one song, but there are {len(audios)}")
        if not os.path.isfile(reference):
            raise ValueError(f"--reference {reference} does not exist")
    references = [reference or _reference_beside(audio) for audio in audios]
    folders = [audio.parent if out is None else out / part for audio, part in zip(audios, below, strict=True)]
    endings = [
        ENDING if _would_hide(audio, folder, true_notes) else ""
        for audio, folder, true_notes in zip(audios, folders, references, strict=True)
    ]
    stems = output_stems(audios, folders, endings, kept=kept, reserved=reserved)
    return [Job(*parts) for parts in zip(audios, stems, references, strict=True)]


def _audio_below(root: Path, out: Path | None) -> list[Path]:
    """Audio files of a folder, broken ones too so that they are named, without what we wrote there."""
    files = [path for path in sorted(root.rglob("*")) if _is_visible(path, root)]
    if out is not None and (inside := os.path.realpath(out)) != os.path.realpath(root):
        files = [path for path in files if inside not in map(str, Path(os.path.realpath(path)).parents)]
    inputs = {path.parent / name for path in files for name in (path.stem, path.name)}

    def is_output(path: Path) -> bool:
        found = _OWN.fullmatch(path.stem)
        return found is not None and path.parent / found["input"] in inputs

    return [path for path in files if (looks_like_audio(path) or is_audio_file(path)) and not is_output(path)]


def _is_visible(path: Path, root: Path) -> bool:
    return not path.is_dir() and not any(part.startswith(".") for part in path.relative_to(root).parts)


def _would_hide(audio: Path, folder: Path, reference: Path | None) -> bool:
    """Whether plain names in ``folder`` could overwrite a reference, or be taken for one later."""
    places = [audio.parent] if reference is None else [audio.parent, reference.parent]
    return folder.resolve() in [place.resolve() for place in places]


def _reference_beside(audio: Path) -> Path | None:
    for ending in (*MIDI_ENDINGS, *(name.upper() for name in MIDI_ENDINGS)):
        for candidate in (audio.with_suffix(ending), audio.with_name(audio.name + ending)):
            if candidate != audio and os.path.isfile(candidate):
                return candidate
    return None
