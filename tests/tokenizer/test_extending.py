"""docs/extending.md, followed to the letter: its rows and files go into a copy of the package, and work."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

import amt
from amt.config import vocabularies
from amt.config.tasks import Task
from amt.evaluation import score_notes
from amt.notes import Note
from amt.tokenizer import NoteTokenizer

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PLACE = '        replace(_MT3_FULL_PLUS, name="mt3_full_plus_all_cross_final"),\n'
CHECK = """
from amt.config import get_task, list_tasks
assert "piano_bass" in list_tasks()
assert get_task("piano_bass").default_subtask == "default"
assert [(n.pitch, n.program) for n in tok.decode(both).notes] == [(60, 0), (40, 32)]
assert [(n.pitch, n.program) for n in tok.decode(bass).notes] == [(40, 32)]
assert tok.vocab_size == 596 + 2
assert not tok.decode(both).errors
"""
LOSS_CHECK = """
import torch
from amt.cli.assemble import resolve
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.config.environment import read_environment
from amt.losses import NoteColumns
from amt.tokenizer import NoteTokenizer
from amt.training.objective import Outputs, build_objective

line = LINE.split()[2:]
command = parse(line, OPTIONS)
experiment = resolve(command.words[0], command, read_environment({})).experiment
objective = build_objective(experiment, NoteTokenizer.from_experiment(experiment))
[term] = [term for term in objective.terms if term.name == "z"]
print(term.name, term.weight, term.start, term.ramp)
labels = torch.tensor([[[5, 6, 0]]])
none = torch.zeros(0)
outputs = Outputs(torch.zeros(1, 1, 3, 32), labels, None, NoteColumns(*[none] * 6))
value = term.compute(outputs)
assert abs(float(value) - torch.tensor(32.0).log() ** 2) < 1e-5, value
"""
DATA_SET_CHECK = """
import os, sys
from pathlib import Path

home = Path(__file__).parent
os.environ["AMT_DATA_HOME"] = str(home / "data")
sys.stderr = sys.stdout
from amt.cli.prepare import main

if __name__ == "__main__":
    assert main(["mystudio", str(home / "studio"), "--processes", "1"]) == 2
    assert main(["mystudio", str(home / "studio"), "--processes", "1", "--skip-broken"]) == 0
    from amt.data.sources import open_presets
    from amt.data.store import SongStore
    from amt.notes import array_to_notes

    (training,) = open_presets(["mystudio"], home / "data").training
    store = SongStore.open(home / "data" / "mystudio")
    song = store.song("train", 0)
    notes = [(note.pitch, note.program) for note in array_to_notes(song.notes)]
    licence = __import__("json").loads((song.folder / "song.json").read_text())["licence"]
    print(sum(store.splits.values()), notes, song.unannotated, licence)
"""
ENCODER_CHECK = """
import torch
from amt.cli.assemble import resolve
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.config.environment import read_environment
from amt.model import build_from
from amt.tokenizer import NoteTokenizer

command = parse([*LINE.split()[2:], "-if", "8000", "--decoder-layers", "1"], OPTIONS)
experiment = resolve(command.words[0], command, read_environment({})).experiment
model = build_from(experiment, NoteTokenizer.from_experiment(experiment))
audio = torch.randn(1, 1, experiment.audio.segment_samples) * 0.1
model(audio, torch.tensor([[[5, 6, 1]]])).square().mean().backward()
assert all(value.grad.abs().sum() > 0 for value in model.encoder.parameters())
again = build_from(experiment, NoteTokenizer.from_experiment(experiment))
again.load_state_dict(model.state_dict())
ids = model.generate(audio, max_length=8)
assert torch.equal(ids, again.generate(audio, max_length=8))
print(model.encoder.layers.num_layers, "layers, all learn")
"""


def block_after(comment: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(re.escape(f"<!-- {comment} -->\n```python\n") + "(.*?)```", text, flags=re.DOTALL)
    assert found is not None
    return found[1]


def copy_of_the_package(folder: Path) -> Path:
    package = folder / "amt"
    shutil.copytree(Path(amt.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def insert(file: Path, place: str, text: str) -> None:
    """Write ``text`` where ``place`` stands."""
    source = file.read_text(encoding="utf-8")
    assert source.count(place) == 1
    file.write_text(source.replace(place, text), encoding="utf-8")


def output_of(folder: Path, script: str) -> str:
    """What a script prints that runs with the package in ``folder``."""
    (folder / "use.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(folder / "use.py")],
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_task_is_one_row(tmp_path: Path) -> None:
    """A copy of the package gets the row of the page where the page says; the page's code then runs."""
    package = copy_of_the_package(tmp_path)
    insert(package / "config" / "tasks.py", PLACE, PLACE + block_after("row: src/config/tasks.py"))
    both, bass = output_of(tmp_path, block_after("uses the row") + CHECK).splitlines()
    assert both.startswith("['transcribe_both', 'tie', ")
    assert bass.startswith("['transcribe_bass', 'tie', ")


def test_a_loss_is_a_file_and_a_row(tmp_path: Path) -> None:
    """The page's file, import and row; its command line then asks for the term."""
    package = copy_of_the_package(tmp_path)
    (package / "losses" / "z.py").write_text(block_after("file: src/losses/z.py"), encoding="utf-8")
    for place, block in (("from ..tokenizer", "import"), ('    "frame": ', "row")):
        text = block_after(f"{block}: src/training/objective.py") + place
        insert(package / "training" / "objective.py", place, text)
    line = re.search(r"python src/train.py EXP .*--term-weight z.*", PAGE.read_text(encoding="utf-8"))
    assert line is not None
    assert output_of(tmp_path, f"LINE = {line[0]!r}\n{LOSS_CHECK}") == "z 0.0001 500 1000\n"


def test_a_data_set_is_a_file_and_a_row(tmp_path: Path) -> None:
    """The page's file and row; its command then makes a store that a run opens."""
    package = copy_of_the_package(tmp_path)
    corpora = package / "preparation" / "corpora"
    (corpora / "mystudio.py").write_text(
        block_after("file: src/preparation/corpora/mystudio.py"), encoding="utf-8"
    )
    place = '    "vocadito": '
    insert(corpora / "__init__.py", place, block_after("row: src/preparation/corpora/__init__.py") + place)
    folder = tmp_path / "studio" / "takes"
    folder.mkdir(parents=True)
    for number in range(20):
        soundfile.write(folder / f"take {number}.wav", np.full(16000, 0.1), 16000)
        (folder / f"take {number}.txt").write_text("0.1 0.5 60\n0.6 0.9 62.2\n", encoding="utf-8")
    (folder / "take 19.txt").write_text("0.1 0.5\n", encoding="utf-8")
    command = re.search(r"^amt-prepare (mystudio) FOLDER$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert command is not None
    output = output_of(tmp_path, DATA_SET_CHECK)
    assert "take 19.txt" in output
    assert "use it with -d mystudio" in output
    assert output.splitlines()[-1] == "19 [(60, 100), (62, 100)] [129] my own"


def test_presets_of_a_script(tmp_path: Path) -> None:
    check = """
from amt.config import get_preset
from amt.config.presets import combine_presets
mix = combine_presets(["studio_mix"])
print(mix.presets, mix.weights, get_preset("studio_live").validation)
try:
    add_preset(MultiPreset("studio_mix", ("slakh",), (1.0,), (None,)))
except ValueError as error:
    print(error)
add_preset(MultiPreset("studio_mix", ("studio_live", "slakh"), (0.7, 0.3), (None, None)))  # the same again
"""
    copy_of_the_package(tmp_path)
    first, second = output_of(tmp_path, block_after("preset") + check).splitlines()
    assert first.startswith("('studio_live', 'slakh') (0.7, 0.3) ")
    assert "EvaluationSet(name='live', split='test')" in first
    assert "choose another name" in second


def test_an_encoder_is_a_file_and_two_rows(tmp_path: Path) -> None:
    """The page's file and rows; its command line then builds a network that learns."""
    package = copy_of_the_package(tmp_path)
    folder = package / "model" / "encoder"
    (folder / "gru.py").write_text(block_after("file: src/model/encoder/gru.py"), encoding="utf-8")
    record = 'ENCODER_RECORDS = {"perceiver-tf": "encoder", '
    insert(
        package / "config" / "model.py", record, record + block_after("entry: src/config/model.py").strip()
    )
    for place, block in (("from .perceiver_tf", "import"), ('    "conformer": ', "row")):
        insert(folder / "__init__.py", place, block_after(f"{block}: src/model/encoder/__init__.py") + place)
    line = re.search(r"^python src/train.py EXP -enc gru .*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    assert output_of(tmp_path, f"LINE = {line[0]!r}\n{ENCODER_CHECK}") == "2 layers, all learn\n"


def test_a_class_of_instruments_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables the page names take a new vocabulary, and tasks, tokens and scores follow it."""
    text = PAGE.read_text(encoding="utf-8")
    for table in ("_PROGRAM_VOCABULARIES", "_DRUM_VOCABULARIES"):
        assert f"`{table}`" in text
    monkeypatch.setitem(vocabularies._PROGRAM_VOCABULARIES, "duo", {"Keys": (4, 0), "Low": (33, 32)})
    monkeypatch.setitem(vocabularies._DRUM_VOCABULARIES, "pair", {"Kick": (36, 35), "Rest": (38, 40, 42)})
    task = Task("duo_task", "duo", drum_vocab="pair", eval_vocab="duo")
    tokenizer = NoteTokenizer(task, segment_samples=32767)
    song = [Note(0.1, 0.5, 60, 0), Note(0.2, 0.5, 40, 32), Note(0.3, 0.31, 42, 128, True)]
    notes = tokenizer.decode(tokenizer.encode(song, num_windows=1)).notes
    assert [(n.pitch, n.program) for n in notes] == [(60, 4), (40, 33), (38, 128)]
    scores = score_notes(song, notes, task)
    assert [scores[key] for key in ("onset_f_Keys", "onset_f_Low", "onset_f_drum")] == [1.0, 1.0, 1.0]


def test_the_page_names_every_field_of_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = text[text.index("| field | effect |") :]
    named = set(
        re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in rows.splitlines() if "|" in line))
    )
    assert named == set(Task.__dataclass_fields__) - {"name"}
