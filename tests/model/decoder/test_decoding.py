"""Sampling, forced tokens, constraints, joining rows: equal to one whole pass of the decoder per token."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from amt.model.decoder import DecoderWeights, DecodingOptions, T5Decoder, decode_stream, generate
from amt.model.decoder.choice import draws, sample, token_log_probs
from amt.model.decoder.products import CastProduct, Int8Product, RowProduct, resolve_precision
from amt.model.decoder.state import DecodingState

EOS, TOKENS, LENGTH = 1, 40, 120
POSITIONS = ["sinusoidal", "trainable"]


Maker = Callable[..., T5Decoder]


def shifted(ids: Tensor) -> Tensor:
    return F.pad(ids[:, :-1], (1, 0))


def whole_pass_logits(decoder: T5Decoder, ids: Tensor, memory: Tensor) -> Tensor:
    """Teacher-forced logits (rows, N, V) of ids (rows, N)."""
    with torch.no_grad():
        return decoder(shifted(ids), memory)


def lengths_of(ids: Tensor) -> list[int]:
    return [row.index(EOS) + 1 if EOS in row else len(row) for row in ids.tolist()]


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("max_rows", [1, 3, 7, 50])
@pytest.mark.parametrize("expected_length", [0, 1])
def test_joining_rows_change_nothing(
    decoder_that_ends: Maker, positions: str, max_rows: int, expected_length: int
) -> None:
    decoder, memory = decoder_that_ends(positions, LENGTH), torch.randn(23, 5, 32)
    options = DecodingOptions(LENGTH, 0, EOS, max_rows=23)
    together = generate(decoder, memory, options).ids
    weights = DecoderWeights(decoder)
    batches = (memory[start : start + 4] for start in range(0, 23, 4))
    options = DecodingOptions(LENGTH, 0, EOS, max_rows=max_rows, expected_length=expected_length)
    rows = list(decode_stream(weights, batches, options))
    assert sorted(row.number for row in rows) == list(range(23))
    assert [len(row.ids) for row in sorted(rows)] == lengths_of(together)
    for row in rows:
        assert torch.equal(row.ids, together[row.number, : len(row.ids)])
    if max_rows in (3, 7):
        assert [row.number for row in rows] != list(range(23)), "rows come as they end"


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_full_batch_as_long_as_rows_wait(
    decoder_that_ends: Maker, positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, memory = decoder_that_ends(positions, LENGTH), torch.randn(40, 5, 32)
    sizes: list[int] = []
    step = DecodingState.step
    monkeypatch.setattr(
        DecodingState, "step", lambda self, ids: (sizes.append(self.num_rows), step(self, ids))[1]
    )
    got = generate(decoder, memory, DecodingOptions(LENGTH, 0, EOS, max_rows=8)).ids
    needed = sum(lengths_of(got))
    assert set(sizes[: len(sizes) // 3]) == {8}
    assert sizes[-1] < 8
    assert needed <= sum(sizes) < 1.5 * needed
    whole = lengths_of(got)
    without = sum(8 * max(whole[start : start + 8]) for start in range(0, 40, 8))
    assert sum(sizes) < 0.8 * without


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(("temperature", "top_p"), [(0.0, 1.0), (1.0, 1.0), (0.7, 0.8)])
def test_log_probs_are_those_of_teacher_forcing(
    decoder_that_ends: Maker, positions: str, temperature: float, top_p: float
) -> None:
    decoder, memory = decoder_that_ends(positions, LENGTH, logit_scale=0.5), torch.randn(12, 5, 32)
    options = DecodingOptions(60, 0, EOS, temperature, top_p, seed=3, with_log_probs=True, max_rows=5)
    ids, log_probs = generate(decoder, memory, options)
    assert log_probs is not None
    expected = whole_pass_logits(decoder, ids, memory).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    for row, (length, got, want) in enumerate(zip(lengths_of(ids), log_probs, expected, strict=True)):
        torch.testing.assert_close(got[:length], want[:length], atol=2e-5, rtol=1e-5)
        assert not got[length:].any(), row
    assert (log_probs <= 0).all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_draws_depend_on_seed_and_row_only(decoder_that_ends: Maker, positions: str) -> None:
    decoder, memory = decoder_that_ends(positions, LENGTH), torch.randn(9, 5, 32)

    def drawn(seed: int, max_rows: int) -> Tensor:
        return generate(decoder, memory, DecodingOptions(50, 0, EOS, 1.0, 1.0, seed, max_rows=max_rows)).ids

    first = drawn(1, 9)
    assert torch.equal(first, drawn(1, 2))
    assert not torch.equal(first, drawn(2, 9)[:, : first.shape[1]])
    greedy = generate(decoder, memory, DecodingOptions(50, 0, EOS)).ids
    cold = generate(decoder, memory, DecodingOptions(50, 0, EOS, 1e-4, 1.0, 5)).ids
    narrow = generate(decoder, memory, DecodingOptions(50, 0, EOS, 1.0, 1e-6, 5)).ids
    assert torch.equal(cold, greedy)
    assert torch.equal(narrow, greedy)


def test_sample_follows_the_distribution() -> None:
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0, 1.0])
    uniform = draws(torch.tensor([7]), 20000, 1)[0]
    for temperature in (1.0, 0.5):
        tokens = sample(logits.expand(20000, 5), uniform, temperature, 1.0)
        share = tokens.bincount(minlength=5) / 20000
        torch.testing.assert_close(share, (logits / temperature).softmax(0), atol=0.012, rtol=0)
    tokens = sample(logits.expand(20000, 5), uniform, 1.0, 0.7)
    share = tokens.bincount(minlength=5) / 20000
    kept = torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0]) * logits.softmax(0)
    torch.testing.assert_close(share, kept / kept.sum(), atol=0.012, rtol=0)
    ends = sample(logits.expand(2, 5), torch.tensor([0.0, 1 - 2**-24]), 1.0, 1.0)
    assert ends.tolist() == [2, 1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_not_finite_give_some_token(value: float) -> None:
    """The step that samples them is dropped by its loss; a bad index would end the run."""
    logits = torch.zeros(3, 5)
    logits[1] = value
    tokens = sample(logits, torch.tensor([0.5, 0.5, 0.5]), 1.0, 0.9)
    assert ((tokens >= 0) & (tokens < 5)).all()
    assert tokens[0] == tokens[2] == sample(torch.zeros(1, 5), torch.tensor([0.5]), 1.0, 0.9)[0]


def test_token_log_probs() -> None:
    logits = torch.randn(4, 6)
    tokens = torch.tensor([0, 5, 2, 2])
    torch.testing.assert_close(
        token_log_probs(logits, tokens), -F.cross_entropy(logits, tokens, reduction="none")
    )


@pytest.mark.parametrize("positions", POSITIONS)
def test_forced_tokens(decoder_that_ends: Maker, positions: str) -> None:
    decoder, memory = decoder_that_ends(positions, LENGTH), torch.randn(6, 5, 32)
    prefix = torch.tensor([[7, 8, 9], [7, 0, 0], [0, 0, 0], [9, 9, 0], [3, 4, 5], [EOS, 0, 0]])
    ids = generate(decoder, memory, DecodingOptions(30, 0, EOS, max_rows=2), prefix=prefix).ids
    for row, forced in zip(ids, prefix, strict=True):
        length = int((forced != 0).sum())
        assert torch.equal(row[:length], forced[:length])
    assert ids[5].tolist() == [EOS] + [0] * (ids.shape[1] - 1)
    free = whole_pass_logits(decoder, ids, memory).argmax(-1)
    for row, want, length, forced in zip(ids, free, lengths_of(ids), prefix, strict=True):
        start = int((forced != 0).sum())
        assert torch.equal(row[start:length], want[start:length])
    with pytest.raises(ValueError, match="no token after the 3"):
        generate(decoder, memory, DecodingOptions(3, 0, EOS), prefix=prefix)


class Countdown:
    """Row ``r`` writes token 5 or 6 alone until it has ``lengths[r]`` tokens, the last its end."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = torch.tensor(lengths)

    def begin(self, rows: Tensor) -> None:
        self.left = self.lengths[rows]

    def replace(self, places: Tensor, rows: Tensor) -> None:
        self.left[places] = self.lengths[rows]

    def keep(self, places: Tensor) -> None:
        self.left = self.left[places]

    def advance(self, tokens: Tensor) -> None:
        self.left -= 1

    def allowed(self) -> Tensor:
        allowed = torch.zeros(len(self.left), TOKENS, dtype=torch.bool)
        allowed[:, 5:7] = (self.left > 1)[:, None]
        allowed[:, EOS] = self.left <= 1
        return allowed


@pytest.mark.parametrize("max_rows", [2, 5, 20])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_constraints_follow_their_rows(decoder_that_ends: Maker, max_rows: int, temperature: float) -> None:
    lengths = [5, 1, 70, 3, 3, 90, 1, 2, 40, 4, 4, 80]
    decoder, memory = decoder_that_ends("sinusoidal", LENGTH), torch.randn(12, 5, 32)
    options = DecodingOptions(LENGTH, 0, EOS, temperature, seed=4, max_rows=max_rows)
    ids = generate(decoder, memory, options, constraint=Countdown(lengths)).ids
    assert lengths_of(ids) == lengths
    for row, length in zip(ids.tolist(), lengths, strict=True):
        assert set(row[: length - 1]) <= {5, 6}
    if not temperature:
        limited = torch.zeros(TOKENS).fill_(float("-inf"))
        limited[5:7] = 0
        free = (whole_pass_logits(decoder, ids, memory) + limited).argmax(-1)
        for row, want, length in zip(ids, free, lengths, strict=True):
            assert torch.equal(row[: length - 1], want[: length - 1])


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize(("inputs", "outputs"), [(33, 801), (64, 448), (512, 1152), (16, 5)])
def test_products(rows: int, inputs: int, outputs: int) -> None:
    weight, x = torch.randn(outputs, inputs), torch.randn(rows, inputs)
    want = x @ weight.t()
    torch.testing.assert_close(RowProduct(weight)(x), want, atol=1e-3, rtol=1e-4)
    assert torch.equal(CastProduct(weight, torch.float64)(x), F.linear(x.double(), weight.double()))
    scale = want.abs().mean()
    assert (CastProduct(weight, torch.bfloat16)(x).float() - want).abs().mean() < 0.01 * scale
    assert (Int8Product(weight)(x) - want).abs().mean() < 0.03 * scale


def test_precision_names() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert (resolve_precision("auto", cpu), resolve_precision("auto", gpu)) == ("32", "bf16")
    with pytest.raises(ValueError, match="use bf16 there"):
        resolve_precision("int8", gpu)
    with pytest.raises(ValueError, match="unknown decode precision 'int4'"):
        resolve_precision("int4", cpu)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(("precision", "tolerance"), [("32", 1e-4), ("bf16", 0.25), ("int8", 0.6)])
@pytest.mark.parametrize("expected_length", [1, LENGTH])
def test_precisions_follow_the_whole_pass(
    decoder_that_ends: Maker, positions: str, precision: str, tolerance: float, expected_length: int
) -> None:
    decoder, memory = decoder_that_ends(positions, LENGTH), torch.randn(8, 5, 32)
    ids = torch.randint(2, TOKENS, (8, 20))
    want = whole_pass_logits(decoder, ids, memory)
    with torch.inference_mode():
        state = DecodingState(DecoderWeights(decoder, precision), memory, expected_length)
        assert (state.memory is not None) == (expected_length == 1 and precision != "bf16")
        inputs = shifted(ids)
        got = torch.stack([state.step(inputs[:, step]) for step in range(20)], 1)
    error = (got.float() - want).abs().mean() / want.std()
    assert error < tolerance
    assert precision == "32" or error > 1e-4, "it makes a difference"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max_length", 0, "max_length"),
        ("temperature", -1.0, "temperature"),
        ("top_p", 0.0, "top_p"),
        ("top_p", 1.5, "top_p"),
        ("max_rows", -1, "max_rows"),
    ],
)
def test_options_are_checked(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**({"max_length": 5} | {field: value}))


def test_nothing_to_decode(decoder_that_ends: Maker) -> None:
    weights = DecoderWeights(decoder_that_ends("sinusoidal", LENGTH))
    assert list(decode_stream(weights, [], DecodingOptions(5, 0, EOS))) == []
    assert list(decode_stream(weights, [torch.zeros(0, 5, 32)], DecodingOptions(5, 0, EOS))) == []


def test_batches_are_made_under_the_autocast_of_the_caller(decoder_that_ends: Maker) -> None:
    """Those that are made while others are decoded too."""
    seen = []

    def batches() -> Iterator[Tensor]:
        for _ in range(4):
            seen.append(torch.is_autocast_enabled("cpu"))
            yield torch.randn(3, 5, 32)

    weights = DecoderWeights(decoder_that_ends("sinusoidal", LENGTH))
    options = DecodingOptions(LENGTH, 0, EOS, max_rows=3)
    with torch.autocast("cpu", torch.bfloat16):
        rows = list(decode_stream(weights, batches(), options))
    assert len(rows) == 12
    assert seen == [True] * 4
