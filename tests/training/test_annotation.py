"""Sub-tasks and unannotated instruments in training and validation: read, forced, masked."""

import csv

import numpy as np
import pytest
import torch

from amt.data.batch import ValidationItem
from amt.data.dataset import TrainingBatches
from amt.data.segments import SegmentMaker, TrainingSet
from amt.data.store import SongStore, StoreWriter
from amt.evaluation import Scoring
from amt.notes import Note, notes_to_array
from amt.tokenizer import NoteTokenizer
from amt.training.module import TranscriptionModule
from amt.training.validation import Validator

SAMPLES = 8000


def make_store(path, unannotated=()):
    rng = np.random.default_rng(0)
    with StoreWriter(path, path.name) as writer:
        for number in range(2):
            stems = rng.normal(0, 300, (3, 2 * 16000)).astype(np.int16)
            notes = [Note(0.2 * i, 0.2 * i + 0.15, 60 + i, 100) for i in range(9)]
            notes += [Note(0.2 * i, 0.2 * i + 0.15, 40 + i, 33) for i in range(9)]
            meta = {"unannotated": list(unannotated)}
            writer.add_song(
                "train", f"s{number}", stems, [[100], [33], []], ["a", "b", "c"], notes_to_array(notes), meta
            )
    return SongStore.open(path)


def module_and_batch(tiny, store, task):
    run = tiny.experiment(
        task=task,
        model__decoder_type="t5",
        augmentation__xaug_max_k=0,
        augmentation__stem_keep_prob=1.0,
        augmentation__pitch_shift_range=[0.0, 0.0],
    )
    tokenizer = NoteTokenizer.from_task(task, segment_samples=SAMPLES, max_length=64)
    sets = [TrainingSet("a", store, ("train",))]
    maker = SegmentMaker(sets, tokenizer, run.audio, run.augmentation, seed=1, sub_batch=2)
    batch = next(iter(TrainingBatches(maker, tokenizer, run.audio, local_batch=6)))
    torch.manual_seed(0)
    return TranscriptionModule(run, tokenizer), batch, tokenizer


def test_the_decoder_reads_the_prefix_and_does_not_learn_it(tiny, tmp_path):
    module, batch, tokenizer = module_and_batch(tiny, make_store(tmp_path / "known"), "singing_v1")
    subtasks = {tuple(row) for row in batch.labels[:, 0, :2].tolist()}
    assert subtasks == {(5, 3), (4, 3)}  # both are drawn
    outputs = module._forward(batch)
    assert (outputs.labels[:, :, :2] == 0).all()
    assert torch.equal(outputs.labels[:, :, 2:], batch.labels[:, :, 2:])
    assert outputs.fully_annotated is None
    # The decoder's positions hold prefix and notes, and another prefix changes what it says.
    assert module.model.decoder.max_length >= tokenizer.sequence_length == 66
    module.eval()
    with torch.no_grad():
        other = batch.labels.clone()
        other[:, :, 0] = 9 - other[:, :, 0]
        encoded = module.model.encode(batch.audio)
        first = module.model.decode_logits(encoded, batch.labels)
        second = module.model.decode_logits(encoded, other)
    assert (first - second)[:, :, 1:].abs().amax() > 1e-3


def test_unannotated_instruments_teach_nothing_of_silence(tiny, tmp_path):
    module, batch, tokenizer = module_and_batch(tiny, make_store(tmp_path / "violin", [40]), "mt3_full_plus")
    assert not batch.channel_complete.any()
    assert batch.fully_annotated is not None
    outputs = module._forward(batch)
    taught = set(tokenizer.describe(outputs.labels.unique().tolist()))
    assert {word.split()[0] for word in taught} == {"PAD", "pitch", "velocity"}
    _, terms = module.objective(outputs, 0)
    frames = [value for name, value in terms.items() if name.startswith("frame")]
    assert frames
    assert all(value.item() == 0 for value in frames)


def test_a_known_song_is_taught_whole(tiny, tmp_path):
    module, batch, _ = module_and_batch(tiny, make_store(tmp_path / "known"), "mt3_full_plus")
    assert torch.equal(module._forward(batch).labels, batch.labels)


class Asked:
    """A network that writes what it is asked for, and notes which prefixes it got."""

    def __init__(self, rows, vocab_size):
        self.rows, self.vocab_size, self.prefixes, self.labels = rows, vocab_size, [], []

    def encode(self, audio):
        return audio

    def decode_logits(self, encoded, labels):
        self.labels.append(labels)
        return torch.zeros(*labels.shape, self.vocab_size)

    def decode_greedily(self, encoded, prefix=None):
        self.prefixes += [] if prefix is None else prefix.tolist()
        return self.rows[encoded[:, 0, 0].long()]


def item_of(tokenizer, notes, first, subtask, known=None, **masks):
    rows = torch.from_numpy(tokenizer.encode(notes, num_windows=2, subtask=subtask))
    audio = torch.zeros(2, 1, SAMPLES)
    audio[:, 0, 0] = torch.arange(first, first + 2)
    notes = tokenizer.target_notes(notes, subtask)
    return ValidationItem(True, 0, "song", audio, rows, notes, 2 * SAMPLES, subtask, known, **masks), rows


def test_validation_asks_each_song_for_its_own_sub_task():
    tokenizer = NoteTokenizer.from_task("singing_v1", segment_samples=SAMPLES, max_length=64)
    notes = [Note(0.1, 0.3, 60, 100), Note(0.5, 0.8, 40, 33)]
    one, first_rows = item_of(tokenizer, notes[:1], 0, "singing-only")
    two, second_rows = item_of(tokenizer, notes, 2, "default")
    model = Asked(torch.cat([first_rows, second_rows]), tokenizer.vocab_size)
    validator = Validator(model, tokenizer, {"a": Scoring()}, batch_size=4)
    validator.add(one)
    validator.add(two)
    values = validator.finish()
    assert model.prefixes == [[4, 3]] * 2 + [[5, 3]] * 2
    assert values["validation/macro_onset_f"] == 1.0
    assert values["val_loss"] == pytest.approx(np.log(tokenizer.vocab_size), rel=1e-5)


def test_validation_scores_only_what_is_annotated():
    tokenizer = NoteTokenizer.from_task("mt3_full_plus", segment_samples=SAMPLES, max_length=64)
    notes = [Note(0.1, 0.3, 60, 0)]
    known = np.ones(129, dtype=bool)
    known[40] = False
    complete = np.array([False])
    item, _ = item_of(tokenizer, notes, 0, None, known, channel_complete=complete)
    heard = [*notes, Note(0.2, 0.4, 70, 40)]  # a violin that nobody wrote down
    rows = torch.from_numpy(tokenizer.encode(heard, num_windows=2))
    values = []
    for mask in (known, None):
        item.known_programs = mask
        validator = Validator(Asked(rows, tokenizer.vocab_size), tokenizer, {"a": Scoring()}, batch_size=2)
        validator.add(item)
        values.append(validator.finish()["validation/macro_onset_f"])
    assert values == [1.0, pytest.approx(2 / 3)]


def test_a_run_with_sub_tasks_trains_validates_and_counts_cut_labels(tiny, sines, tmp_path):
    status = tiny.train(
        tmp_path / "run",
        sines,
        task="singing_v1",
        event_length=8,
        trainer__max_steps=2,
        trainer__val_interval=2,
    )
    assert status == 0
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    cut = [float(row["truncated_labels"]) for row in rows if row.get("truncated_labels")]
    assert cut == sorted(cut)
    assert cut[-1] > 0
    assert any(row.get("validation/macro_onset_f") for row in rows)
    assert any(row.get("val_loss") for row in rows)
