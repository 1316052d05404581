"""Cached decoding equals full decoding."""

from __future__ import annotations

import pytest
import torch

from amt.model.decoder import greedy_decode, state

EOS = 1


def full_greedy(decoder, memory, max_length):
    """One whole pass of the decoder per token, no cache, no early end."""
    ids = torch.zeros(len(memory), 1, dtype=torch.int64)
    done = torch.zeros(len(memory), dtype=torch.bool)
    with torch.no_grad():
        for _ in range(max_length):
            token = decoder(ids, memory)[:, -1].argmax(-1).masked_fill(done, 0)
            ids = torch.cat([ids, token[:, None]], 1)
            done |= token == EOS
            if done.all():
                break
    return ids[:, 1:]


@pytest.mark.parametrize("positions", ["sinusoidal", "trainable"])
def test_equals_full_decoding(decoder_that_ends, positions):
    decoder, memory = decoder_that_ends(positions), torch.randn(12, 5, 32)
    got = greedy_decode(decoder, memory, 200, pad_id=0, eos_id=EOS)
    assert torch.equal(got, full_greedy(decoder, memory, 200))
    lengths = [(row == EOS).nonzero()[0].item() if EOS in row else 200 for row in got]
    assert len(set(lengths)) > 3
    assert min(lengths) <= 1
    assert max(lengths) > state.FIRST_CAPACITY, "the cache has grown"


def test_rows_do_not_depend_on_the_batch(decoder_that_ends):
    decoder, memory = decoder_that_ends("sinusoidal"), torch.randn(12, 5, 32)
    together = greedy_decode(decoder, memory, 100, pad_id=0, eos_id=EOS)
    for i in range(12):
        alone = greedy_decode(decoder, memory[i : i + 1], 100, pad_id=0, eos_id=EOS)[0]
        assert torch.equal(together[i, : len(alone)], alone)
        assert not together[i, len(alone) :].any()


def test_finished_rows_leave_the_batch(decoder_that_ends, monkeypatch):
    decoder, memory = decoder_that_ends("sinusoidal"), torch.randn(12, 5, 32)
    sizes = []
    step = state.DecodingState.step
    monkeypatch.setattr(
        state.DecodingState, "step", lambda self, ids: (sizes.append(len(ids)), step(self, ids))[1]
    )
    got = greedy_decode(decoder, memory, 150, pad_id=0, eos_id=EOS)
    needed = sum(int((row != 0).sum()) for row in got)
    assert sizes[0] == 12
    assert sizes[-1] < 12
    assert sum(sizes) < 0.75 * 12 * len(sizes)
    assert sum(sizes) >= needed


def test_end_in_first_place_is_seen(decoder_that_ends):
    """The published decoder overlooks an EOS that comes first (its fault pinned by ``decode_eos_first``)."""
    decoder = decoder_that_ends("sinusoidal")
    decoder.lm_head.weight.data.zero_()
    decoder.final_norm.weight.data.fill_(1.0)
    memory = torch.randn(3, 5, 32)
    with torch.no_grad():
        hidden = decoder.hidden(torch.zeros(3, 1, dtype=torch.int64), memory)[:, 0]
    decoder.lm_head.weight.data[EOS] = hidden.mean(0)
    got = greedy_decode(decoder, memory, 20, pad_id=0, eos_id=EOS)
    assert got.tolist() == [[EOS]] * 3


@pytest.mark.parametrize("max_length", [1, 7, 64, 65, 200])
def test_length_bound(decoder_that_ends, max_length):
    decoder = decoder_that_ends("sinusoidal")
    decoder.lm_head.weight.data[EOS] = -10 * decoder.lm_head.weight.data[2]
    decoder.lm_head.weight.data[0] = 0.0
    got = greedy_decode(decoder, torch.randn(2, 5, 32), max_length, pad_id=0, eos_id=EOS)
    assert got.shape[1] <= max_length
    for bad in (0, 201):
        with pytest.raises(ValueError, match="max_length must be 1 to 200"):
            greedy_decode(decoder, torch.randn(2, 5, 32), bad, pad_id=0, eos_id=EOS)


def test_no_rows(decoder_that_ends):
    got = greedy_decode(decoder_that_ends("sinusoidal"), torch.randn(0, 5, 32), 9, pad_id=0, eos_id=EOS)
    assert got.shape[0] == 0


def test_mixed_precision_follows_full_precision(decoder_that_ends):
    decoder, memory = decoder_that_ends("sinusoidal"), torch.randn(6, 5, 32)
    exact = greedy_decode(decoder, memory, 3, pad_id=0, eos_id=EOS)
    with torch.autocast("cpu", torch.bfloat16):
        got = greedy_decode(decoder, memory, 3, pad_id=0, eos_id=EOS)
    assert got.dtype == torch.int64
    assert (got[:, 0] == exact[:, 0]).float().mean() >= 0.5
