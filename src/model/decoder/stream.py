"""Decoding of any number of rows: finished rows leave the batch, waiting ones take their places.

A step costs little more for many rows than for few (the matrices are read once), and a row that has ended
costs nothing here. So the batch is kept full as long as rows wait, whichever window, channel or song they
are of.

Axes: R rows decoded at a time, N tokens, T frames, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from .choice import Constraint, DecodingOptions, draws, sample, token_log_probs
from .state import DecodingState
from .t5 import T5Decoder
from .weights import DecoderWeights

REPLACE_SHARE = 0.125
"""Share of the batch that must have ended before waiting rows take the places."""
COMPACT_SHARE = 0.25
"""Share that must have ended before the caches are copied without them, when no row waits."""
ACCELERATOR_CHECK_STEPS = 8
"""Steps between two looks at the ended rows where a look makes the host wait."""
_CPU_CACHE_BYTES = 2**30
_ACCELERATOR_CACHE_BYTES = 4 * 2**30
_MIN_ROWS, _MAX_CPU_ROWS, _MAX_ROWS = 16, 80, 1024
"""With more rows a CPU's products are no faster, and more of the batch waits for its longest rows."""


class Row(NamedTuple):
    """A decoded row."""

    number: int
    """Its place in the memory given, from 0."""
    ids: Tensor
    """(n,) tokens, the end token last if it was reached."""
    log_probs: Tensor | None
    """(n,) of those tokens, when asked for."""


class Generated(NamedTuple):
    """Decoded rows in order."""

    ids: Tensor
    """(rows, N), PAD behind the end."""
    log_probs: Tensor | None
    """(rows, N), 0 behind the end; None unless asked for."""


class _Waiting:
    """Memory of the rows that wait, pulled from an iterable of batches (n, T, D) as needed."""

    def __init__(self, batches: Iterable[Tensor]) -> None:
        self._batches: Iterator[Tensor] | None = iter(batches)
        self._held: list[Tensor] = []
        self._next = 0

    def take(self, count: int) -> tuple[Tensor, Tensor] | None:
        """Numbers (n,) and memory (n, T, D) of up to ``count`` rows; None: none is left."""
        while self._batches is not None and sum(map(len, self._held)) < count:
            batch = next(self._batches, None)
            if batch is None:
                self._batches = None
            elif len(batch):
                self._held.append(batch.detach())
        if not self._held:
            return None
        memory = self._held[0] if len(self._held) == 1 else torch.cat(self._held)
        taken, rest = memory[:count], memory[count:]
        self._held = [rest] if len(rest) else []
        numbers = torch.arange(self._next, self._next + len(taken), device=memory.device)
        self._next += len(taken)
        return numbers, taken


class _Batch:
    """The rows being decoded: their caches, tokens and draws."""

    def __init__(
        self,
        weights: DecoderWeights,
        options: DecodingOptions,
        constraint: Constraint | None,
        prefix: Tensor | None,
        numbers: Tensor,
        memory: Tensor,
    ) -> None:
        self.options, self.constraint, self.prefix = options, constraint, prefix
        self.state = DecodingState(weights, memory, options.expected_length or options.max_length)
        self.numbers = numbers
        rows, length = len(numbers), options.max_length
        # One column more, for what ended rows that still lie in the batch write.
        shape = (rows, length + 1)
        self.ids = torch.full(shape, options.pad_id, dtype=torch.int64, device=numbers.device)
        self.log_probs = torch.zeros(shape, device=numbers.device) if options.with_log_probs else None
        self.uniform = draws(numbers, length, options.seed) if options.temperature else None
        self.last = self.ids[:, 0].clone()
        self.done = torch.zeros(rows, dtype=torch.bool, device=numbers.device)
        if constraint is not None:
            constraint.begin(numbers)

    def step(self) -> None:
        """One more token of every row."""
        ages = self.state.ages().clamp(max=self.options.max_length)[:, None]
        logits = self.state.step(self.last)
        tokens = self._choose(logits, ages).masked_fill_(self.done, self.options.pad_id)
        self.ids.scatter_(1, ages, tokens[:, None])
        if self.log_probs is not None:
            values = token_log_probs(logits, tokens).masked_fill_(self.done, 0.0)
            self.log_probs.scatter_(1, ages, values[:, None])
        self.done |= tokens == self.options.eos_id
        self.done |= self.state.ages() >= self.options.max_length
        self.last = tokens
        if self.constraint is not None:
            self.constraint.advance(tokens)

    def _choose(self, logits: Tensor, ages: Tensor) -> Tensor:
        options = self.options
        if self.constraint is not None:
            logits = logits.masked_fill(~self.constraint.allowed(), float("-inf"))
        if self.uniform is None:
            tokens = logits.argmax(-1)
        else:
            uniform = self.uniform.gather(1, ages.clamp(max=options.max_length - 1))[:, 0]
            tokens = sample(logits.float(), uniform, options.temperature, options.top_p)
        if self.prefix is not None:
            prefix = (
                self.prefix.expand(len(tokens), -1) if len(self.prefix) == 1 else self.prefix[self.numbers]
            )
            forced = prefix.gather(1, ages.clamp(max=self.prefix.shape[1] - 1))[:, 0]
            forced = forced.masked_fill(ages[:, 0] >= self.prefix.shape[1], options.pad_id)
            tokens = torch.where(forced != options.pad_id, forced, tokens)
        return tokens

    def finished(self, places: Tensor) -> Iterator[Row]:
        """The rows in those places (n,)."""
        ids, numbers = self.ids[places, :-1].cpu(), self.numbers[places].tolist()
        log_probs = None if self.log_probs is None else self.log_probs[places, :-1].cpu()
        ended = ids == self.options.eos_id
        lengths = torch.where(ended.any(1), ended.int().argmax(1) + 1, ids.shape[1]).tolist()
        for i, (number, length) in enumerate(zip(numbers, lengths, strict=True)):
            yield Row(number, ids[i, :length], None if log_probs is None else log_probs[i, :length])

    def replace(self, places: Tensor, numbers: Tensor, memory: Tensor) -> None:
        """New rows start in those places."""
        self.state.replace(places, memory)
        self.numbers[places] = numbers
        self.ids[places] = self.options.pad_id
        self.last[places] = self.options.pad_id
        self.done[places] = False
        if self.log_probs is not None:
            self.log_probs[places] = 0.0
        if self.uniform is not None:
            self.uniform[places] = draws(numbers, self.options.max_length, self.options.seed)
        if self.constraint is not None:
            self.constraint.replace(places, numbers)

    def keep(self, places: Tensor) -> None:
        """Only those places go on."""
        self.state.keep(places)
        self.numbers, self.ids = self.numbers[places], self.ids[places]
        self.last, self.done = self.last[places], self.done[places]
        self.log_probs = None if self.log_probs is None else self.log_probs[places]
        self.uniform = None if self.uniform is None else self.uniform[places]
        if self.constraint is not None:
            self.constraint.keep(places)


def default_max_rows(weights: DecoderWeights, num_frames: int) -> int:
    """How many rows keep the caches within 1 GB on a CPU and 4 GB elsewhere, when each has 256 tokens."""
    tokens = num_frames + min(256, weights.max_length)
    item = torch.empty(0, dtype=weights.dtype).element_size()
    row = 2 * len(weights.layers) * tokens * weights.num_heads * weights.head_width * item
    on_cpu = weights.embed.device.type == "cpu"
    budget, most = (_CPU_CACHE_BYTES, _MAX_CPU_ROWS) if on_cpu else (_ACCELERATOR_CACHE_BYTES, _MAX_ROWS)
    return max(_MIN_ROWS, min(most, budget // row))


def decode_stream(
    weights: DecoderWeights,
    batches: Iterable[Tensor],
    options: DecodingOptions,
    *,
    constraint: Constraint | None = None,
    prefix: Tensor | None = None,
) -> Iterator[Row]:
    """Decode rows whose memory comes in batches (n, T, D); each row is given as soon as it has ended.

    Decoding starts from PAD. A row ends with its EOS, which is kept and also counts as the first token, or
    at ``max_length``. ``prefix`` (rows or 1, P) forces the first tokens of each row, with PAD where a row
    is free; they are part of the result. Rows come in the order they end in; their number says which they
    are.

    Raises:
        ValueError: ``max_length`` is more than the decoder's positions, or leaves nothing after the prefix.
    """
    if not 1 <= options.max_length <= weights.max_length:
        raise ValueError(f"max_length must be 1 to {weights.max_length} (-el), not {options.max_length}")
    if prefix is not None and options.max_length <= prefix.shape[1]:
        raise ValueError(
            f"max_length {options.max_length} leaves no token after the {prefix.shape[1]} of the sub-task's "
            "prefix"
        )
    return _decode(weights, _Waiting(batches), options, constraint, prefix)


@contextmanager
def _exactly(device: torch.device) -> Iterator[None]:
    """No gradients, and the number formats that the weights were made in."""
    with torch.inference_mode(), torch.autocast(device.type, enabled=False):
        yield


def _decode(
    weights: DecoderWeights,
    waiting: _Waiting,
    options: DecodingOptions,
    constraint: Constraint | None,
    prefix: Tensor | None,
) -> Iterator[Row]:
    # One row tells how large the others are.
    first = waiting.take(1)
    if first is None:
        return
    device = first[1].device
    max_rows = options.max_rows or default_max_rows(weights, first[1].shape[1])
    more = waiting.take(max_rows - 1) if max_rows > 1 else None
    if more is not None:
        first = (torch.cat([first[0], more[0]]), torch.cat([first[1], more[1]]))
    if prefix is not None:
        prefix = prefix.to(device)
    check_steps = 1 if device.type == "cpu" else ACCELERATOR_CHECK_STEPS
    with _exactly(device):
        batch = _Batch(weights, options, constraint, prefix, *first)
    step, all_taken = 0, False
    while True:
        rows: list[Row] = []
        num_rows = batch.state.num_rows
        with _exactly(device):
            batch.step()
            step += 1
            ended = int(batch.done.sum()) if step % check_steps == 0 else 0
        everything = ended == num_rows
        new = None
        if ended and not all_taken and (everything or ended >= REPLACE_SHARE * num_rows):
            new = waiting.take(ended)  # may run the caller's encoder, under the caller's autocast
            all_taken = new is None or len(new[0]) < ended
        with _exactly(device):
            if new is not None:
                places = batch.done.nonzero()[: len(new[0]), 0]
                rows += batch.finished(places)
                batch.replace(places, *new)
                ended -= len(places)
                everything = False
            if ended and all_taken and (everything or ended >= COMPACT_SHARE * num_rows):
                rows += batch.finished(batch.done.nonzero()[:, 0])
                if not everything:
                    batch.keep(_without(batch.done))
        yield from rows
        if everything:
            return


def _without(done: Tensor) -> Tensor:
    """The places of the rows that go on, those of the end in the gaps: (R,) bool → (n,)."""
    going = (~done).nonzero()[:, 0]
    places = torch.arange(len(going), device=done.device)
    places[done[: len(going)]] = going[going >= len(going)]
    return places


def collect(rows: Iterable[Row], num_rows: int, pad_id: int) -> Generated:
    """Rows in any order as one array."""
    by_number: list[Row | None] = [None] * num_rows
    for row in rows:
        by_number[row.number] = row
    whole = [row for row in by_number if row is not None]
    assert len(whole) == num_rows
    longest = max((len(row.ids) for row in whole), default=1)
    ids = torch.full((num_rows, longest), pad_id, dtype=torch.int64)
    log_probs = torch.zeros(num_rows, longest) if whole and whole[0].log_probs is not None else None
    for i, row in enumerate(whole):
        ids[i, : len(row.ids)] = row.ids
        if log_probs is not None and row.log_probs is not None:
            log_probs[i, : len(row.ids)] = row.log_probs
    return Generated(ids, log_probs)


def generate(
    decoder: T5Decoder | DecoderWeights,
    memory: Tensor,
    options: DecodingOptions,
    *,
    constraint: Constraint | None = None,
    prefix: Tensor | None = None,
) -> Generated:
    """:func:`decode_stream` of memory (rows, T, D) as one array, on the device of the memory."""
    weights = decoder if isinstance(decoder, DecoderWeights) else DecoderWeights(decoder)
    rows = decode_stream(weights, [memory], options, constraint=constraint, prefix=prefix)
    ids, log_probs = collect(rows, len(memory), options.pad_id)
    return Generated(ids.to(memory.device), None if log_probs is None else log_probs.to(memory.device))


def greedy_decode(
    decoder: T5Decoder | DecoderWeights,
    memory: Tensor,
    max_length: int,
    *,
    pad_id: int,
    eos_id: int,
    prefix: Tensor | None = None,
) -> Tensor:
    """The likeliest token at each step, from memory (B, T, D) → ids (B, N) with N ≤ ``max_length``.

    Under autocast the matrices are cast once to its type. Rules and errors: see :func:`decode_stream`.
    """
    if max_length < 1:
        raise ValueError(f"max_length must be 1 to {decoder.max_length} (-el), not {max_length}")
    options = DecodingOptions(max_length, pad_id, eos_id)
    return generate(decoder, memory, options, prefix=prefix).ids
