"""The auxiliary terms over tokens: against sums written out token by token, finite differences, and notes."""

import math

import pytest
import torch

from amt.losses import blank_loss, boundary_loss, chroma_loss, log_totals, octave_loss, onset_loss
from amt.losses.octave import OCTAVE_SHIFTS
from amt.notes import Note
from amt.tokenizer import NoteTokenizer
from amt.training.objective import label_mask

PAD, EOS = 0, 1
SHIFTS, PITCHES, VELOCITIES, TIES, DRUMS = (
    range(3, 9),
    range(9, 49),
    range(49, 51),
    range(51, 52),
    range(52, 56),
)
VOCABULARY = 58
"""40 pitches, so that octave shifts leave the range on both sides; two ids belong to nothing."""

TERMS = {
    "octave": lambda logits, labels, **more: octave_loss(logits, labels, pitches=PITCHES, **more),
    "chroma": lambda logits, labels, **more: chroma_loss(logits, labels, pitches=PITCHES, **more),
    "blank": lambda logits, labels, **more: blank_loss(logits, labels, ties=TIES, eos_id=EOS, **more),
    "onset": lambda logits, labels, **more: onset_loss(
        logits, labels, pitches=PITCHES, velocities=VELOCITIES, drums=DRUMS, **more
    ),
    "boundary": lambda logits, labels, **more: boundary_loss(logits, labels, shifts=SHIFTS, width=2, **more),
}
OFF, ON = VELOCITIES


def example(num_samples=3, num_channels=2, length=12, seed=0, scale=2.0):
    """Random logits, and labels of the form of real ones: ties, a body that may be empty, EOS, PAD."""
    generator = torch.Generator().manual_seed(seed)

    def draw(ids):
        return int(torch.randint(ids.start, ids.stop, (), generator=generator))

    labels = torch.zeros(num_samples, num_channels, length, dtype=torch.int64)
    for sample in range(num_samples):
        for channel in range(num_channels):
            row = [draw(PITCHES)] * (channel % 2) + [TIES.start]
            if (sample, channel) != (0, 0):
                row += [draw(SHIFTS), ON, draw(PITCHES), draw(DRUMS), draw(PITCHES)]
                row += [draw(SHIFTS), OFF, draw(PITCHES)][: 3 * (sample % 2)]
            row.append(EOS)
            labels[sample, channel, : len(row)] = torch.tensor(row)
    logits = scale * torch.randn(*labels.shape, VOCABULARY, generator=generator, dtype=torch.float64)
    return logits, labels


def probabilities(logits):
    return torch.softmax(logits.double(), -1).tolist()


def written_out(name, logits, labels, samples=None):
    """The formula of the docstring in plain Python."""
    p, rows = probabilities(logits), labels.tolist()
    num_samples, num_channels, length = labels.shape
    places = [(b, c, n) for b in range(num_samples) for c in range(num_channels) for n in range(length)]
    if name == "octave":
        found = []
        for b in range(num_samples):
            means = []
            for shift in OCTAVE_SHIFTS:
                losses = [
                    -math.log(p[b][c][n][rows[b][c][n] + shift])
                    for (sample, c, n) in places
                    if sample == b and rows[b][c][n] in PITCHES and rows[b][c][n] + shift in PITCHES
                ]
                means += [sum(losses) / len(losses)] if losses else []
            if means and (samples is None or samples[b]):
                found.append(min(means))
        return sum(found) / len(found) if found else 0.0
    if name == "chroma":
        found = []
        for b, c, n in places:
            label = rows[b][c][n]
            if label in PITCHES:
                found.append(-math.log(sum(p[b][c][n][q] for q in PITCHES if (q - label) % 12 == 0)))
        return sum(found) / len(found)
    if name == "boundary":
        found = []
        for b, c, n in places:
            label = rows[b][c][n]
            if label in SHIFTS:
                weights = {q: 1 - abs(q - label) / 3 for q in SHIFTS if abs(q - label) <= 2}
                total = sum(weights.values())
                found.append(-sum(w / total * math.log(p[b][c][n][q]) for q, w in weights.items()))
        return sum(found) / len(found)
    found = []
    for b in range(num_samples):
        for c in range(num_channels):
            row = rows[b][c]
            if name == "blank":
                body = row.index(TIES.start) + 1
                found.append(max(0.0, p[b][c][body][EOS] - float(row[body] == EOS)))
                continue
            expected, reference, state = 0.0, 0, OFF
            for n, label in enumerate(row):
                if label == PAD:
                    break
                begins = [*DRUMS, *(PITCHES if state == ON else ())]
                expected += sum(p[b][c][n][q] for q in begins)
                reference += label in begins
                state = label if label in VELOCITIES else state
            off = abs(expected - reference)
            found.append((0.5 * off**2 if off < 1 else off - 0.5) / (reference + 1))
    return sum(found) / len(found)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("shape", [(3, 2), (2, 1)])
def test_equals_the_formula(name, shape):
    for seed in range(4):
        logits, labels = example(*shape, seed=seed)
        value = TERMS[name](logits, labels)
        assert value.dtype == torch.float64
        assert float(value) == pytest.approx(written_out(name, logits, labels), rel=1e-9)
        assert float(value) > 0


@pytest.mark.parametrize("name", TERMS)
def test_gradients_are_those_of_finite_differences(name):
    logits, labels = example(2, 1, length=10, seed=7)
    assert torch.autograd.gradcheck(lambda x: TERMS[name](x, labels), logits.requires_grad_())
    logits, labels = example(3, 2, length=12, seed=8)
    assert torch.autograd.gradcheck(lambda x: TERMS[name](x, labels), logits.requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("name", TERMS)
def test_a_known_log_total_changes_nothing(name):
    logits, labels = example()
    torch.testing.assert_close(
        TERMS[name](logits, labels, log_total=log_totals(logits)), TERMS[name](logits, labels)
    )


@pytest.mark.parametrize("name", TERMS)
def test_longer_padding_changes_nothing(name):
    logits, labels = example()
    longer = torch.nn.functional.pad(labels, (0, 5))
    more = torch.nn.functional.pad(logits, (0, 0, 0, 5), value=3.0)
    torch.testing.assert_close(TERMS[name](more, longer), TERMS[name](logits, labels))


@pytest.mark.parametrize("name", TERMS)
def test_a_sample_that_is_masked_has_no_part(name):
    logits, labels = example()
    logits.requires_grad_()
    masked = labels.clone()
    masked[1] = PAD
    value = TERMS[name](logits, masked)
    value.backward()
    assert float(logits.grad[1].abs().max()) == 0
    assert float(logits.grad[2].abs().max()) > 0
    kept = [0, 2]
    torch.testing.assert_close(value, TERMS[name](logits[kept], labels[kept]))


@pytest.mark.parametrize("name", TERMS)
def test_nothing_to_learn_is_zero_with_zero_gradients(name):
    logits, labels = example()
    logits.requires_grad_()
    value = TERMS[name](logits, torch.full_like(labels, PAD))
    value.backward()
    assert value.item() == 0
    assert float(logits.grad.abs().max()) == 0


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_extreme_logits_stay_finite(name, size):
    for seed in range(3):
        logits, labels = example(seed=seed)
        logits = (logits.sign() * size).float().requires_grad_()
        value = TERMS[name](logits, labels)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", TERMS)
def test_half_precision_is_reduced_in_float32(name):
    logits, labels = example()
    half = logits.to(torch.bfloat16)
    value = TERMS[name](half, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, TERMS[name](half.float(), labels))


def test_octave_takes_chosen_samples_only():
    logits, labels = example()
    logits.requires_grad_()
    for chosen in ([True, False, True], [False, True, False]):
        value = TERMS["octave"](logits, labels, samples=torch.tensor(chosen))
        assert value.item() == pytest.approx(written_out("octave", logits, labels, chosen), rel=1e-9)
        (gradient,) = torch.autograd.grad(value, logits)
        assert [bool(row.abs().max() > 0) for row in gradient] == [
            pick and bool((within_pitches(row)).any()) for pick, row in zip(chosen, labels, strict=True)
        ]
    nobody = TERMS["octave"](logits, labels, samples=torch.zeros(3, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(nobody, logits)
    assert nobody.item() == gradient.abs().max().item() == 0


def within_pitches(labels):
    return (labels >= PITCHES.start) & (labels < PITCHES.stop)


# --- what the terms are for, on labels of real notes --------------------------------------------------


def tokens_of(notes, task="mc13_fsingle", windows=1):
    tokenizer = NoteTokenizer.from_task(task, segment_samples=32767, max_length=64)
    prefix = next(iter(tokenizer.prefixes), None)
    return tokenizer, torch.from_numpy(tokenizer.encode(notes, num_windows=windows, subtask=prefix))


def sure_of(labels, size, confidence=20.0):
    """Logits of a network that is sure of these tokens."""
    return confidence * torch.nn.functional.one_hot(labels, size).float()


MELODY = [Note(0.2 + 0.3 * k, 0.4 + 0.3 * k, pitch, 100) for k, pitch in enumerate((60, 64, 67, 62))]


def moved(notes, semitones=0, seconds=0.0):
    return [Note(n.onset + seconds, n.offset + seconds, n.pitch + semitones, n.program) for n in notes]


@pytest.mark.parametrize("semitones", OCTAVE_SHIFTS)
def test_octave_forgives_a_whole_sample_and_chroma_each_note(semitones):
    tokenizer, heard = tokens_of(MELODY)
    _, labels = tokens_of(moved(MELODY, semitones))
    logits = sure_of(heard, tokenizer.vocab_size)
    pitches = tokenizer.token_range("pitch")
    assert float(octave_loss(logits, labels, pitches=pitches)) < 1e-3
    assert float(chroma_loss(logits, labels, pitches=pitches)) < 1e-3
    _, mixed = tokens_of([*moved(MELODY[:2], 12), *MELODY[2:]])
    assert float(octave_loss(logits, mixed, pitches=pitches)) > 5
    assert float(chroma_loss(logits, mixed, pitches=pitches)) < 1e-3
    _, wrong = tokens_of(moved(MELODY, 1))
    assert float(octave_loss(logits, wrong, pitches=pitches)) > 10
    assert float(chroma_loss(logits, wrong, pitches=pitches)) > 10


def test_drums_have_no_octave_and_no_pitch_class():
    tokenizer, labels = tokens_of([Note(0.1, 0.11, 36, 128, True), Note(0.5, 0.51, 38, 128, True)])
    logits = torch.randn(*labels.shape, tokenizer.vocab_size)
    pitches = tokenizer.token_range("pitch")
    assert float(octave_loss(logits, labels, pitches=pitches)) == 0
    assert float(chroma_loss(logits, labels, pitches=pitches)) == 0


@pytest.mark.parametrize("task", ["mc13_fsingle", "singing_v1", "mt3_full_plus"])
def test_onset_counts_notes_that_begin_not_ties_and_ends(task):
    drum = Note(0.7, 0.71, 38, 128, True)
    held = Note(1.0, 3.0, 50, 0)
    tokenizer, labels = tokens_of([*MELODY, drum, held], task, windows=2)
    labels = label_mask(tokenizer)(labels, None, None)
    ids = {
        "pitches": tokenizer.token_range("pitch"),
        "velocities": tokenizer.token_range("velocity"),
        "drums": tokenizer.token_range("drum"),
    }
    assert float(onset_loss(sure_of(labels, tokenizer.vocab_size), labels, **ids)) < 1e-6
    nothing = torch.full_like(labels, tokenizer.eos_id)
    missed = onset_loss(sure_of(nothing, tokenizer.vocab_size), labels, **ids)
    assert float(missed) == pytest.approx(0.5 * (6 - 0.5) / 7 + 0.5 * 0.0, abs=1e-3)  # the held note is tied


def test_blank_sees_an_end_after_the_ties():
    held = Note(1.0, 3.0, 50, 0)
    tokenizer, labels = tokens_of([held, Note(2.5, 2.8, 60, 0)], windows=2)
    assert tokenizer.describe(labels[1, 0, :3].tolist()) == ["program 0", "pitch 50", "tie"]
    ids = {"ties": tokenizer.token_range("tie"), "eos_id": tokenizer.eos_id}
    size = tokenizer.vocab_size
    ended = labels.clone()
    ended[1, 0, 3] = tokenizer.eos_id
    assert float(blank_loss(sure_of(labels, size), labels, **ids)) < 1e-6
    assert float(blank_loss(sure_of(ended, size), labels, **ids)) == pytest.approx(0.5, abs=1e-5)
    empty = torch.from_numpy(tokenizer.encode([], num_windows=1))
    assert float(blank_loss(torch.randn(*empty.shape, size), empty, **ids)) == 0


def test_boundary_charges_less_for_a_step_off_than_for_ten():
    tokenizer, labels = tokens_of(MELODY)
    shifts = tokenizer.token_range("shift")
    losses = []
    for seconds in (0.0, 0.01, 0.02, 0.1):
        _, heard = tokens_of(moved(MELODY, seconds=seconds))
        logits = sure_of(heard, tokenizer.vocab_size)
        losses.append(float(boundary_loss(logits, labels, shifts=shifts, width=2)))
    assert losses == sorted(losses)
    assert losses[0] < losses[1] < losses[2] < losses[3]


def test_what_is_not_annotated_is_left_out_of_every_term():
    """A channel whose silence is not known keeps its notes; one without notes at all has no part."""
    tokenizer = NoteTokenizer.from_task("mc13_256", segment_samples=32767)
    labels = torch.from_numpy(tokenizer.encode(moved(MELODY), num_windows=1))[..., :64]
    logits = torch.randn(*labels.shape, tokenizer.vocab_size)
    mask = label_mask(tokenizer)
    nothing = torch.zeros(labels.shape[:2], dtype=torch.bool)
    unknown, incomplete = mask(labels, nothing, None), mask(labels, None, nothing)
    pitches, velocities = tokenizer.token_range("pitch"), tokenizer.token_range("velocity")
    shifts, ties = tokenizer.token_range("shift"), tokenizer.token_range("tie")

    def values(taught):
        return [
            float(octave_loss(logits, taught, pitches=pitches)),
            float(chroma_loss(logits, taught, pitches=pitches)),
            float(onset_loss(logits, taught, pitches=pitches, velocities=velocities)),
            float(blank_loss(logits, taught, ties=ties, eos_id=tokenizer.eos_id)),
            float(boundary_loss(logits, taught, shifts=shifts, width=2)),
        ]

    assert values(unknown) == [0.0] * 5
    known, some = values(labels), values(incomplete)
    assert some[:2] == known[:2]
    assert some[2] > 0
    assert some[3:] == [0.0, 0.0]
