"""Terms of the objective in a run: logged under their names, summed by weight, the same after a resume."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amt.data.batch import Batch
from amt.data.module import TranscriptionData
from amt.tokenizer import NoteTokenizer
from amt.training.module import TranscriptionModule

FRAMES = ("frame_voice_pitch", "frame_voice_onset")
WEIGHTS = {"octave": 0.2, "chroma": 0.3, "blank": 0.4, "onset": 0.5, "boundary": 0.6}
TERMS = {
    **{f"objective__{name}_weight": weight for name, weight in WEIGHTS.items()},
    "objective__term_start": ["chroma=2"],
    "objective__term_ramp": ["chroma=4", "octave=2"],
    "trainer__val_interval": 6,
}


def rows(folder):
    with open(folder / "metrics.csv", newline="") as file:
        return [row for row in csv.DictReader(file) if row["train_loss"]]


@pytest.fixture(scope="module")
def whole(tiny, sines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("p") / "whole"
    assert tiny.train(folder, sines, checkpoint__save_every_n_train_steps=3, **TERMS) == 0
    return folder


def test_the_loss_is_the_weighted_sum_of_what_is_logged(whole):
    found = rows(whole)
    assert len(found) == 6
    for step, row in enumerate(found):
        weights = {**WEIGHTS, "octave": WEIGHTS["octave"] * min(1, (step + 1) / 2)}
        if step < 2:
            assert not row["chroma"]
            del weights["chroma"]
        else:
            weights["chroma"] *= (step - 1) / 4
        terms = {"token_ce": 1.0, **dict.fromkeys(FRAMES, 1.0), **weights}
        total = sum(weight * float(row[name]) for name, weight in terms.items())
        assert float(row["train_loss"]) == pytest.approx(total, rel=1e-5)
        assert float(row["octave"]) > 0


def test_a_resumed_run_goes_on_in_the_ramp(tiny, sines, whole, tmp_path):
    folder = tmp_path / "p" / "parts"
    options = {"checkpoint__save_every_n_train_steps": 3, "lr_schedule__name": "constant", **TERMS}
    assert tiny.train(folder, sines, **{**options, "trainer__max_steps": 3}) == 0
    last = folder / "checkpoints" / "last.ckpt"
    assert tiny.train(folder, sines, checkpoint=last, kind="resume", step=3, **options) == 0
    unbroken = tmp_path / "p" / "unbroken"
    assert tiny.train(unbroken, sines, **options) == 0
    names = ("train_loss", "token_ce", *WEIGHTS)
    assert [[row[name] for name in names] for row in rows(folder)] == [
        [row[name] for name in names] for row in rows(unbroken)
    ]


def test_validation_loss_stays_the_cross_entropy(tiny, sines, whole, tmp_path):
    """Same weights, other objectives: one ``val_loss``."""
    losses = []
    for name, changes in (("plain", {}), ("terms", {**TERMS, "objective__label_smoothing": 0.3})):
        folder = tmp_path / "p" / name
        settings = {**changes, "trainer__max_steps": 1, "optimizer__learning_rate": 1e-12}
        assert tiny.train(folder, sines, **settings) == 0
        with open(folder / "metrics.csv", newline="") as file:
            losses += [float(row["val_loss"]) for row in csv.DictReader(file) if row["val_loss"]]
    assert len(losses) == 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(("which", "samples"), [("unknown", [1]), ("known", [0]), ("all", [0, 1])])
def test_the_flag_of_the_store_says_which_samples_have_the_octave_term(tiny, sines: Path, which, samples):
    experiment = tiny.experiment(objective__octave_weight=1.0, objective__octave_samples=which)
    module, batch = module_and_batch(experiment, sines)
    outputs = module._forward(batch)
    [octave] = [term for term in module.objective.terms if term.name == "octave"]
    (gradient,) = torch.autograd.grad(octave.compute(outputs), outputs.logits)
    assert [index for index, row in enumerate(gradient) if row.abs().max() > 0] == samples


def module_and_batch(experiment, data_home):
    """A module, and a batch whose second sample is of unknown octave."""
    tokenizer = NoteTokenizer.from_experiment(experiment)
    batch = next(iter(TranscriptionData(experiment, tokenizer, data_home).train_dataloader()))
    assert isinstance(batch, Batch)
    batch.octave_unknown = torch.tensor([False, True])
    return TranscriptionModule(experiment, tokenizer), batch


def test_hidden_octaves_are_neither_taught_nor_read(tiny, sines: Path):
    experiment = tiny.experiment(objective__chroma_weight=1.0, objective__hide_octaves=True)
    module, batch = module_and_batch(experiment, sines)
    pitches = module.tokenizer.token_range("pitch")
    is_pitch = (batch.labels >= pitches.start) & (batch.labels < pitches.stop)
    read = [module._read_labels(batch) for _ in range(20)]
    for labels in read:
        assert torch.equal(labels[0], batch.labels[0])
        assert torch.equal(labels[~is_pitch], batch.labels[~is_pitch])
        assert ((labels - batch.labels) % 12 == 0).all()
        assert ((labels[is_pitch] >= pitches.start) & (labels[is_pitch] < pitches.stop)).all()
    drawn = torch.stack(read)[:, 1][:, is_pitch[1]] - pitches.start
    assert {int(value) // 12 for value in drawn.flatten()} >= set(range(10))
    assert any(len(set((row // 12).tolist())) > 1 for row in drawn), "each note has an octave of its own"
    outputs = module._forward(batch)
    assert torch.equal(outputs.labels, batch.labels)
    gradients = {}
    for term in module.objective.terms:
        if term.name in ("token_ce", "chroma"):
            (gradient,) = torch.autograd.grad(term.compute(outputs), outputs.logits, retain_graph=True)
            gradients[term.name] = gradient.abs().amax(-1) > 0
    known, unknown = is_pitch.clone(), is_pitch.clone()
    known[1], unknown[0] = False, False
    assert gradients["token_ce"][known].all()
    assert not gradients["token_ce"][unknown].any()
    assert gradients["chroma"][is_pitch].all()


@pytest.mark.parametrize("hidden", [True, False])
def test_hidden_octaves_are_hidden_from_the_frame_head(tiny, sines: Path, hidden: bool):
    """Its terms do not change with the octave of the labels, as they do where nothing is hidden."""
    experiment = tiny.experiment(objective__chroma_weight=1.0, objective__hide_octaves=hidden)
    module, batch = module_and_batch(experiment, sines)
    outputs = module.eval()._forward(batch)
    assert outputs.frames is not None
    notes = outputs.notes
    up = (notes.sample == 1) & (notes.pitch < 96)
    assert up.any()
    moved = replace(outputs, notes=notes._replace(pitch=notes.pitch + 12 * up))
    [frame] = [term for term in module.objective.terms if term.name == "frame"]
    first, second = frame.compute(outputs), frame.compute(moved)
    assert set(first) == set(FRAMES)
    same = torch.isclose(first["frame_voice_pitch"], second["frame_voice_pitch"], rtol=1e-6, atol=0)
    assert bool(same) is hidden
