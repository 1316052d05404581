"""Transcribing files for the command line: audio files in, MIDI and pictures out."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..audio import audio_length
from ..config.names import counted
from ..evaluation import note_prf
from ..notes import read_midi
from ..notes.note import Note
from .choices import DEFAULT_CHOICES, DecodingChoices, left_out_text
from .files import PARTS, printable
from .outputs import WRITERS, check_formats, error_line, head_line, note_line, tail_line, write_outputs
from .planning import Job, plan_jobs
from .progress_bar import ProgressBar, real_time
from .reference import read_reference

if TYPE_CHECKING:
    from .transcriber import SongTranscriber, Transcription

DEFAULT_FORMATS = ("mid",)
NO_SOUND = "holds no sound (0 samples), so there are no notes"
"""What is said of a file that is a header alone."""


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
    to_stdout: bool = False,
    project: str | None = None,
    log_dir: Path | None = None,
    device: str = "auto",
    choices: DecodingChoices = DEFAULT_CHOICES,
    formats: Sequence[str] = DEFAULT_FORMATS,
    reference: Path | None = None,
    reference_program: int | None = None,
) -> int:
    """Transcribe files and folders of files; prints one line for each and a progress bar.

    Args:
        spec: ``exp@checkpoint`` or the path of a checkpoint.
        inputs: audio files, or folders that are searched for them (by content).
        out: folder of the outputs; ``None`` writes beside each input with ``_transcribed`` in the name.
        to_stdout: write the one song in the one format to standard output, or any number of songs as
            ``jsonl``, each note as soon as it is final; all else that is said goes to standard error.
        project, log_dir, device, choices: as in :func:`~.transcriber.load_transcriber`.
        formats: names of :data:`~.outputs.WRITERS`.
        reference: MIDI file with the true notes of the one input; ``None`` takes a MIDI file of the same
            name beside the audio when there is one.
        reference_program: what all pitched notes of the references are (0 to 127), see
            :func:`~.reference.read_reference`; ``None`` goes by the files.

    Returns:
        0 when every file was transcribed, 1 when some could not be, 2 when nothing could begin.
    """
    try:
        check_formats(formats)
        jobs = plan_jobs(inputs, out, reference)
        if to_stdout:
            _check_stdout(formats, jobs)
        if reference is not None:
            read_midi(reference, program=reference_program)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        from .transcriber import load_transcriber

        transcriber = load_transcriber(spec, choices, device=device, log_dir=log_dir, project=project)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    talk = sys.stderr if to_stdout else sys.stdout
    print(describe(transcriber), file=talk)
    results = [
        predict_file(transcriber, job, formats, to_stdout=to_stdout, reference_program=reference_program)
        for job in jobs
    ]
    failed = [result for result in results if not result.ok]
    if len(results) > 1:
        print(f"{len(results) - len(failed)} of {counted(len(results), 'file')} transcribed", file=talk)
    return 1 if failed else 0


def describe(transcriber: SongTranscriber) -> str:
    """What was loaded, in a line."""
    return (
        f"{transcriber.source}: {counted(transcriber.num_weights, 'weight')} loaded, 0 missing; "
        f"task {transcriber.tokenizer.task.title(transcriber.subtask)}, on {transcriber.device}"
    )


def _check_stdout(formats: Sequence[str], jobs: Sequence[Job]) -> None:
    if sys.stdout is None:
        raise ValueError("-o -: standard output is closed")
    if list(formats) == ["jsonl"]:
        return
    if len(formats) > 1 or formats[0] == PARTS:
        known = ", ".join(name for name in WRITERS if name != PARTS)
        raise ValueError(f"-o - writes one format, --format with one of {known}; not {' '.join(formats)}")
    if len(jobs) > 1:
        raise ValueError(
            f"-o - writes one song as {formats[0]}, but there are {len(jobs)}; --format jsonl takes several"
        )


def predict_file(
    transcriber: SongTranscriber,
    job: Job,
    formats: Sequence[str],
    *,
    to_stdout: bool = False,
    reference_program: int | None = None,
) -> Result:
    """Transcribe one file, write its outputs, print its line. A broken file is a result, not an exception."""
    streams = to_stdout and list(formats) == ["jsonl"]
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            song = _transcribe(transcriber, job.audio, _print_lines if streams else None)
            reference = _read_reference(job.reference, transcriber, reference_program)
        score = _score(reference, song.notes)
        title = printable(f"{job.audio.name}{score}")
        outputs: tuple[Path, ...] = ()
        if to_stdout and not streams:
            _write_to_stdout(formats[0], song, reference, title)
        elif not to_stdout:
            outputs = write_outputs(job.stem, formats, song, reference, title)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        reason = reason_of(error, job.audio)
        if streams:
            _print_lines([error_line(job.audio.name, reason)])
        line = printable(f"{job.audio}: not transcribed: {reason}")
        print(line, file=sys.stderr)
        return Result(job, line, ok=False)
    for message in dict.fromkeys(str(item.message) for item in caught):
        print(printable(f"note: {message}"), file=sys.stderr)
    found = f"{NO_SOUND}{score}"
    if song.duration:
        found = (
            f"{counted(len(song.notes), 'note')} in {song.duration:.1f} s, "
            f"{real_time(song.duration, song.elapsed)}{faults(song)}{score}"
        )
    line = printable(f"{job.audio}: {found} -> {_listing(outputs)}")
    print(line, file=sys.stderr if to_stdout else sys.stdout)
    return Result(job, line, outputs)


def _transcribe(
    transcriber: SongTranscriber, audio: Path, write: Callable[[Sequence[str]], None] | None
) -> Transcription:
    """The notes of a file, behind a progress bar; ``write`` gets the JSON lines of notes as they come."""
    step = transcriber.seconds_per_window
    with ProgressBar(audio.name, "windows") as bar:

        def show(done: int, total: int) -> None:
            bar.show(done, total, done * step)

        if write is None:
            return transcriber.transcribe(audio, progress=show)
        rate = transcriber.sample_rate
        write([head_line(audio.name, audio_length(audio, rate) / rate)])
        song = transcriber.transcribe(
            audio, progress=show, listener=lambda notes: write([note_line(note) for note in notes])
        )
        write([tail_line(song)])
        return song


def _print_lines(lines: Sequence[str]) -> None:
    print("\n".join(lines), flush=True)


def _write_to_stdout(name: str, song: Transcription, reference: list[Note] | None, title: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (path,) = write_outputs(Path(folder) / "song", [name], song, reference, title)
        sys.stdout.buffer.write(path.read_bytes())
        sys.stdout.buffer.flush()


def _read_reference(
    path: Path | None, transcriber: SongTranscriber, program: int | None
) -> list[Note] | None:
    """The notes of a MIDI file that the task transcribes; None, and a warning, where there is nothing to
    hold an estimate against."""
    if path is None:
        return None
    try:
        found = read_reference(path, transcriber.tokenizer, transcriber.subtask, program)
    except (ValueError, OSError) as error:
        warnings.warn(f"no reference: {error}", UserWarning, stacklevel=2)
        return None
    if found.remark:
        way_out = f"; --reference-program N says what they are ({found.choices})" if found.choices else ""
        warnings.warn(f"{found.remark}{way_out}", UserWarning, stacklevel=2)
        return found.notes or None
    return found.notes


def _score(reference: list[Note] | None, notes: Sequence[Note]) -> str:
    if not reference:
        return ""
    pitched = note_prf([n for n in reference if not n.is_drum], [n for n in notes if not n.is_drum])
    if not pitched.num_reference:
        return ""
    return f", onset F1 {pitched.f:.3f} against {counted(pitched.num_reference, 'reference note')}"


def faults(song: Transcription) -> str:
    """How many tokens of a song made no note, as the rest of a line; "" for none."""
    text = left_out_text(sum(song.errors.values()), song.num_tokens, constrained=song.constrained)
    return f", {text}" if text else ""


def _listing(outputs: Sequence[Path]) -> str:
    if not outputs:
        return "standard output"
    first, *rest = outputs
    return ", ".join([str(first), *(path.suffix for path in rest)])


def reason_of(error: Exception, audio: Path) -> str:
    """Why a file was not transcribed, without its name."""
    text = str(error).strip() or type(error).__name__
    return text.removeprefix(f"{audio}: ")
