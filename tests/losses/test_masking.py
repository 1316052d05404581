"""Which label tokens are taught."""

import torch

from amt.config.model import FRAME_GROUPS
from amt.losses import LabelMask, token_cross_entropy
from amt.losses.frame import NoteColumns, frame_loss
from amt.tokenizer import NoteTokenizer
from amt.training.objective import label_mask


def words(tokenizer, text):
    known = {word: token for token, word in enumerate(tokenizer.describe(range(tokenizer.vocab_size)))}
    return [known[word] for word in text.split(", ")]


def shown(tokenizer, row):
    return [word for word in tokenizer.describe(row.tolist()) if word != "PAD"]


SEQUENCE = (
    "program 0, pitch 60, tie, shift 5, velocity 1, pitch 64, drum 36, shift 9, velocity 0, pitch 60, EOS"
)


def test_task_tokens_are_read_and_not_taught():
    tokenizer = NoteTokenizer.from_task("singing_v1", segment_samples=32767)
    labels = torch.tensor([[words(tokenizer, f"transcribe_singing, task, {SEQUENCE}")]])
    masked = label_mask(tokenizer)(labels, None, None)
    assert shown(tokenizer, masked[0, 0]) == SEQUENCE.split(", ")
    assert masked[0, 0, :2].tolist() == [0, 0]
    assert labels[0, 0, 0] != 0  # the decoder's input stays
    logits = torch.zeros(1, 1, labels.shape[2], tokenizer.vocab_size, requires_grad=True)
    token_cross_entropy(logits, masked).backward()
    moved = logits.grad.abs().sum(-1)[0, 0] > 0
    assert moved.tolist() == [False, False] + [True] * 11


def test_a_channel_without_annotation_teaches_nothing():
    tokenizer = NoteTokenizer.from_task("mc13_256", segment_samples=32767)
    labels = torch.tensor([[[tokenizer.tie_id, 1, 0]] * 13] * 2)
    annotated = torch.ones(2, 13, dtype=torch.bool)
    annotated[0, 5] = False
    masked = label_mask(tokenizer)(labels, annotated, torch.ones_like(annotated))
    assert (masked[0, 5] == 0).all()
    assert (masked != labels).sum() == 2  # the tie and the end of that channel
    logits = torch.randn(2, 13, 3, tokenizer.vocab_size, requires_grad=True)
    token_cross_entropy(logits, masked).backward()
    silent = logits.grad.abs().amax((-1, -2)) == 0
    assert silent.nonzero().tolist() == [[0, 5]]


def test_where_notes_may_lack_only_what_is_there_is_taught():
    """Shift, program, tie and EOS say "nothing until here", not known of unannotated instruments."""
    tokenizer = NoteTokenizer.from_task("mt3_full_plus", segment_samples=32767)
    labels = torch.tensor([[words(tokenizer, SEQUENCE)]] * 2)
    complete = torch.tensor([[True], [False]])
    masked = label_mask(tokenizer)(labels, torch.ones(2, 1, dtype=torch.bool), complete)
    assert torch.equal(masked[0], labels[0])
    taught = ["pitch 60", "velocity 1", "pitch 64", "drum 36", "velocity 0", "pitch 60"]
    assert shown(tokenizer, masked[1, 0]) == taught


def test_nothing_changes_without_masks():
    labels = torch.tensor([[[3, 4, 1, 0]]])
    assert LabelMask(0, range(0), ())(labels, None, None) is labels


def test_samples_with_unannotated_sound_leave_the_frame_terms():
    torch.manual_seed(0)
    groups = ("voice", "pitched", "drums")
    notes = NoteColumns(
        sample=torch.tensor([0.0, 0.0, 0.0, 1.0]),
        onset=torch.tensor([0.1, 0.2, 0.3, 0.2]),
        offset=torch.tensor([0.3, 0.4, 0.31, 0.5]),
        pitch=torch.tensor([60.0, 64.0, 36.0, 70.0]),
        program=torch.tensor([100.0, 0.0, 128.0, 100.0]),
        is_drum=torch.tensor([0.0, 0.0, 1.0, 0.0]),
    )
    width = sum(FRAME_GROUPS[group] for group in groups)
    logits = torch.randn(2, 12, width, requires_grad=True)
    whole = frame_loss(logits, notes, groups, 0.05)
    every = frame_loss(logits, notes, groups, 0.05, torch.tensor([True, True]))
    for name, value in whole.items():
        torch.testing.assert_close(every[name], value)
    first = frame_loss(logits, notes, groups, 0.05, torch.tensor([True, False]))
    alone = NoteColumns(*(column[:3] for column in notes))
    for name, value in frame_loss(logits[:1], alone, groups, 0.05).items():
        torch.testing.assert_close(first[name], value)
    sum(first.values()).backward()
    assert logits.grad[1].abs().sum() == 0
    nobody = frame_loss(logits, notes, groups, 0.05, torch.tensor([False, False]))
    assert all(value.item() == 0 for value in nobody.values())
