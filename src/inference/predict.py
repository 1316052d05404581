"""Transcribing files for the command line: audio files in, MIDI and pictures out."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..audio import is_audio_file, looks_like_audio
from ..config.names import unknown_name
from ..evaluation import note_prf
from ..notes import read_midi, write_midi
from ..notes.note import Note, array_to_notes, notes_to_array
from .choices import DEFAULT_CHOICES, DecodingChoices
from .files import atomic_path, output_stems
from .piano_roll import draw_piano_roll
from .render import render_notes, write_wav

if TYPE_CHECKING:
    from .transcriber import SongTranscriber, Transcription

MIDI_ENDINGS = (".mid", ".midi")
ENDING = "_transcribed"
"""Added to the names of outputs that lie beside their input."""


@dataclass(frozen=True)
class Job:
    """One file to transcribe."""

    audio: Path
    stem: Path
    """Path of its outputs without their extension."""
    reference: Path | None = None
    """MIDI file with the true notes; one that cannot be read is named and left out."""


@dataclass(frozen=True)
class Result:
    """What became of a file."""

    job: Job
    line: str
    """The sentence the user sees."""
    outputs: tuple[Path, ...] = ()
    ok: bool = True


def run_predict(
    spec: str,
    inputs: Sequence[Path],
    *,
    out: Path | None = None,
    project: str | None = None,
    log_dir: Path | None = None,
    device: str = "auto",
    choices: DecodingChoices = DEFAULT_CHOICES,
    formats: Sequence[str] = ("mid", "png"),
    reference: Path | None = None,
) -> int:
    """Transcribe files and folders of files; prints one line for each and a progress bar.

    Args:
        spec: ``exp@checkpoint`` or the path of a checkpoint.
        inputs: audio files, or folders that are searched for them (by content).
        out: folder of the outputs; ``None`` writes beside each input with ``_transcribed`` in the name.
        project, log_dir, device, choices: as in :func:`~.transcriber.load_transcriber`.
        formats: any of ``mid``, ``png``, ``wav``, ``json``, ``csv``.
        reference: MIDI file with the true notes of the one input; ``None`` takes a MIDI file of the same
            name beside the audio when there is one.

    Returns:
        0 when every file was transcribed, 1 when some could not be, 2 when nothing could begin.
    """
    try:
        check_formats(formats)
        jobs = plan_jobs(inputs, out, reference)
        if reference is not None:
            read_midi(reference)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        from .transcriber import load_transcriber

        transcriber = load_transcriber(spec, choices, device=device, log_dir=log_dir, project=project)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(
        f"{transcriber.source}: {transcriber.num_weights} weights loaded, 0 missing; "
        f"task {_task(transcriber)}, on {transcriber.device}"
    )
    results = [predict_file(transcriber, job, formats) for job in jobs]
    failed = [result for result in results if not result.ok]
    if len(results) > 1:
        print(f"{len(results) - len(failed)} of {len(results)} files transcribed")
    return 1 if failed else 0


def _task(transcriber: SongTranscriber) -> str:
    part = f" ({transcriber.subtask})" if transcriber.subtask else ""
    return f"{transcriber.experiment.task}{part}"


def check_formats(formats: Sequence[str]) -> None:
    """Refuse output formats that do not exist."""
    for name in formats:
        if name not in WRITERS:
            raise unknown_name("output format", name, WRITERS)
    if not formats:
        raise ValueError(f"no output format given; known: {', '.join(WRITERS)}")


def plan_jobs(inputs: Sequence[Path], out: Path | None, reference: Path | None = None) -> list[Job]:
    """Which files to transcribe and where their outputs go; no output overwrites another or a reference.

    Raises:
        ValueError: an input that is missing, a folder without audio, a reference with several inputs.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; the outputs need a folder (-o FOLDER)")
    audios: list[Path] = []
    below: list[Path] = []
    for item in inputs:
        if item.is_dir():
            found = _audio_below(item)
            if not found:
                raise ValueError(f"{item} holds no audio file")
            audios += found
            below += [path.parent.relative_to(item) for path in found]
        elif item.exists():
            audios.append(item)
            below.append(Path())
        else:
            raise ValueError(f"{item} does not exist")
    if not audios:
        raise ValueError("no audio file given")
    if reference is not None:
        if len(audios) > 1:
            raise ValueError(f"--reference {reference} belongs to one song, but there are {len(audios)}")
        if not reference.is_file():
            raise ValueError(f"--reference {reference} does not exist")
    references = [reference or _reference_beside(audio) for audio in audios]
    folders = [audio.parent if out is None else out / part for audio, part in zip(audios, below, strict=True)]
    endings = [
        ENDING if _would_hide(audio, folder, true_notes) else ""
        for audio, folder, true_notes in zip(audios, folders, references, strict=True)
    ]
    stems = output_stems(audios, folders, endings)
    return [Job(*parts) for parts in zip(audios, stems, references, strict=True)]


def predict_file(transcriber: SongTranscriber, job: Job, formats: Sequence[str]) -> Result:
    """Transcribe one file, write its outputs, print its line. A broken file is a result, not an exception."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            with _progress(job.audio.name) as progress:
                song = transcriber.transcribe(job.audio, progress=progress)
            reference = _read_reference(job.reference, transcriber)
        outputs = tuple(Path(f"{job.stem}.{name}") for name in formats)
        score = _score(reference, song.notes)
        for name, path in zip(formats, outputs, strict=True):
            WRITERS[name](path, song, reference, f"{job.audio.name}{score}")
    except (ValueError, OSError) as error:
        line = f"{job.audio}: not transcribed: {_reason(error, job.audio)}"
        print(line, file=sys.stderr)
        return Result(job, line, ok=False)
    for message in dict.fromkeys(str(item.message) for item in caught):
        print(f"note: {message}", file=sys.stderr)
    line = (
        f"{job.audio}: {len(song.notes)} notes in {song.duration:.1f} s, "
        f"{song.real_time_factor:.0f} times real time{_faults(song)}{score} -> {_listing(outputs)}"
    )
    print(line)
    return Result(job, line, outputs)


def _write_midi(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    with atomic_path(path) as temporary:
        write_midi(song.notes, temporary, track_names=song.class_names)


def _write_png(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    draw_piano_roll(path, song.notes, reference, song.duration, title)


def _write_wav(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    write_wav(path, render_notes(song.notes, 16000, song.duration), 16000)


def _write_json(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    plain: dict[str, Any] = {
        "duration": song.duration,
        "num_windows": song.num_windows,
        "errors": dict(song.errors),
        "notes": [note._asdict() for note in song.notes],
    }
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def _write_csv(path: Path, song: Transcription, reference: list[Note] | None, title: str) -> None:
    rows = [",".join(Note._fields)]
    rows += [
        f"{n.onset:.6f},{n.offset:.6f},{n.pitch},{n.program},{int(n.is_drum)},{n.velocity}"
        for n in song.notes
    ]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(rows) + "\n", encoding="utf-8")


Writer = Callable[[Path, "Transcription", "list[Note] | None", str], None]
WRITERS: Mapping[str, Writer] = {
    "mid": _write_midi,
    "png": _write_png,
    "wav": _write_wav,
    "json": _write_json,
    "csv": _write_csv,
}
"""Output formats by their file ending."""


def _audio_below(root: Path) -> list[Path]:
    """Audio files of a folder, broken ones too so that they are named, without what we wrote beside them."""
    files = [path for path in sorted(root.rglob("*")) if _is_visible(path, root)]
    stems = {path.parent / path.stem for path in files}

    def is_output(path: Path) -> bool:
        own = path.stem.removesuffix(ENDING)
        return own != path.stem and path.parent / own in stems

    return [path for path in files if (looks_like_audio(path) or is_audio_file(path)) and not is_output(path)]


def _is_visible(path: Path, root: Path) -> bool:
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)


def _would_hide(audio: Path, folder: Path, reference: Path | None) -> bool:
    """Whether plain names in ``folder`` could overwrite a reference, or be taken for one later."""
    places = [audio.parent] if reference is None else [audio.parent, reference.parent]
    return folder.resolve() in [place.resolve() for place in places]


def _reference_beside(audio: Path) -> Path | None:
    for ending in (*MIDI_ENDINGS, *(name.upper() for name in MIDI_ENDINGS)):
        for candidate in (audio.with_suffix(ending), audio.with_name(audio.name + ending)):
            if candidate.is_file() and candidate != audio:
                return candidate
    return None


def _read_reference(path: Path | None, transcriber: SongTranscriber) -> list[Note] | None:
    """The notes of a MIDI file that the task transcribes; without a readable file None, and a warning."""
    if path is None:
        return None
    try:
        notes = read_midi(path)
    except (ValueError, OSError) as error:
        warnings.warn(f"no reference: {error}", UserWarning, stacklevel=2)
        return None
    tokenizer, subtask = transcriber.tokenizer, transcriber.subtask
    targets = array_to_notes(tokenizer.target_notes(notes_to_array(notes), subtask))
    if notes and not targets:
        warnings.warn(
            f"{path} holds no notes of the task {_task(transcriber)}: nothing to score",
            UserWarning,
            stacklevel=2,
        )
    return targets


def _score(reference: list[Note] | None, notes: Sequence[Note]) -> str:
    if not reference:
        return ""
    pitched = note_prf([n for n in reference if not n.is_drum], [n for n in notes if not n.is_drum])
    if not pitched.num_reference:
        return ""
    return f", onset F1 {pitched.f:.3f} against {pitched.num_reference} reference notes"


def _faults(song: Transcription) -> str:
    count = sum(song.errors.values())
    return f", {count} malformed token{'s' if count > 1 else ''} dropped" if count else ""


def _listing(outputs: Sequence[Path]) -> str:
    first, *rest = outputs
    return ", ".join([str(first), *(path.suffix for path in rest)])


def _reason(error: Exception, audio: Path) -> str:
    text = str(error).strip() or type(error).__name__
    return text.removeprefix(f"{audio}: ")


class _progress:
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Callable[[int, int], None]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} windows"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar.start()
        task = self._bar.add_task(self.name, total=None)

        def show(done: int, total: int) -> None:
            self._bar.update(task, completed=done, total=total)

        return show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
