"""The network's speed on one CPU thread: decoding against transformers' T5 and against growing caches, and a
training step on real label lengths; with memory and the share of the machine's matrix-product rate.

Times are CPU seconds (``time.process_time``), the two sides of a ratio alternate, medians are printed. Name
parts to run only those: ``python benchmarks/model.py transformers song precision step``.
"""

from __future__ import annotations

import resource
import statistics
import sys
from collections.abc import Callable

import numpy as np
import torch
from baselines.growing_cache import decode as growing_cache_decode
from cpu_rates import cpu_seconds, matrix_rate
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from amt.config import AudioConfig, ModelConfig, PreEncoderConfig, T5DecoderConfig
from amt.losses import token_cross_entropy
from amt.model import build_model
from amt.model.decoder import (
    DecoderWeights,
    DecodingOptions,
    T5Decoder,
    decode_stream,
    generate,
    greedy_decode,
)
from amt.model.decoder.choice import short_length
from amt.notes import NOTE_DTYPE
from amt.tokenizer import NoteTokenizer

PAD, EOS = 0, 1
SIZES = {"128 x 2": (128, 2, 4, 32, 540), "512 x 8": (512, 8, 6, 64, 801)}
"""Name to width, layers, heads, head width and vocabulary: the quick start's, the published."""


def alternate(ours: Callable[[], object], theirs: Callable[[], object], pairs: int) -> tuple[float, float]:
    """Median CPU seconds of ours, and the median of theirs over ours within each pair; one pair warms up."""
    ours(), theirs()
    times = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(pairs)]
    return statistics.median(a for a, _ in times), statistics.median(b / a for a, b in times)


def build_decoder(size: str, max_length: int) -> T5Decoder:
    """A decoder with random weights of the size of that name."""
    width, layers, heads, d_kv, vocabulary = SIZES[size]
    torch.manual_seed(0)
    config = T5DecoderConfig(
        d_model=width, num_heads=heads, d_kv=d_kv, num_layers=layers, position_encoding="trainable"
    )
    return T5Decoder(config, vocabulary, max_length).eval()


def transformers_twin(ours: T5Decoder, size: str) -> T5ForConditionalGeneration:
    """transformers' model with the weights of ours."""
    width, layers, heads, d_kv, vocabulary = SIZES[size]
    theirs = T5ForConditionalGeneration(
        T5Config(
            vocab_size=vocabulary,
            d_model=width,
            d_kv=d_kv,
            d_ff=ours.layers[0].feed_forward.wo.in_features,
            num_layers=layers,
            num_decoder_layers=layers,
            num_heads=heads,
            feed_forward_proj="gated-gelu",
            decoder_start_token_id=PAD,
            pad_token_id=PAD,
            eos_token_id=EOS,
            tie_word_embeddings=False,
            scale_decoder_outputs=False,
        )
    ).eval()
    decoder = theirs.decoder
    assert ours.relative_bias is not None
    with torch.no_grad():
        decoder.embed_tokens = torch.nn.Embedding.from_pretrained(ours.embed.weight.clone())
        theirs.lm_head = torch.nn.Linear(width, vocabulary, bias=False)
        theirs.lm_head.weight.copy_(ours.lm_head.weight)
        decoder.final_layer_norm.weight.copy_(ours.final_norm.weight)
        first = decoder.block[0].layer[0].SelfAttention
        first.relative_attention_bias.weight.copy_(ours.relative_bias.weight)
        for block, layer in zip(decoder.block, ours.layers, strict=True):
            for theirs_part, ours_part, names in (
                (block.layer[0].SelfAttention, layer.self_attention, "qkvo"),
                (block.layer[1].EncDecAttention, layer.cross_attention, "qkvo"),
                (block.layer[2].DenseReluDense, layer.feed_forward, ("wi_0", "wi_1", "wo")),
            ):
                for name in names:
                    getattr(theirs_part, name).weight.copy_(getattr(ours_part, name).weight)
    return theirs


def against_transformers(size: str, frames: int, tokens: int, pairs: int, rows: int = 32) -> None:
    """Equal weights and tokens; no row ends early in either."""
    ours = build_decoder(size, tokens + 1)
    with torch.no_grad():
        ours.lm_head.weight[:2] = 0.0
    theirs = transformers_twin(ours, size)
    memory = torch.randn(rows, frames, SIZES[size][0])
    encoded = BaseModelOutput(last_hidden_state=memory)

    def run_ours() -> Tensor:
        return greedy_decode(ours, memory, tokens, pad_id=PAD, eos_id=EOS)

    def run_theirs() -> Tensor:
        out: Tensor = theirs.generate(
            encoder_outputs=encoded,
            attention_mask=torch.ones(rows, frames, dtype=torch.int64),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            num_beams=1,
        )
        return out[:, 1:]

    equal = (run_ours()[:, :tokens] == run_theirs()[:, :tokens]).float().mean()
    seconds, ratio = alternate(run_ours, run_theirs, pairs)
    parameters = sum(p.numel() for name, p in ours.named_parameters() if "embed" not in name and p.dim() == 2)
    share = 2 * parameters * rows * tokens / seconds / matrix_rate()
    print(
        f"decoding {size}, {rows} rows, {frames} frames, {tokens} tokens: {rows * tokens / seconds:.0f} "
        f"tokens per CPU second ({share:.0%} of the rate of large products; "
        f"{4 * parameters * tokens / seconds / 1e9:.1f} GB/s of matrices); "
        f"transformers takes {ratio:.2f}x as long; {equal:.1%} of tokens equal",
        flush=True,
    )


class ForcedLengths:
    """A constraint under which row ``i`` ends at ``lengths[i]`` tokens."""

    def __init__(self, lengths: Tensor, num_tokens: int) -> None:
        self.lengths, self.num_tokens = lengths, num_tokens

    def begin(self, rows: Tensor) -> None:
        self.left = self.lengths[rows]

    def replace(self, places: Tensor, rows: Tensor) -> None:
        self.left[places] = self.lengths[rows]

    def keep(self, places: Tensor) -> None:
        self.left = self.left[places]

    def advance(self, tokens: Tensor) -> None:
        self.left -= 1

    def allowed(self) -> Tensor:
        last = (self.left == 1)[:, None]
        allowed = (~last).repeat(1, self.num_tokens)
        allowed[:, EOS] = last[:, 0]
        return allowed


def reference_lengths(seconds: float) -> Tensor:
    """Token counts (windows, 13) of a made-up song with 15 notes per second on seven instruments."""
    rng = np.random.default_rng(0)
    count = int(15 * seconds)
    notes = np.zeros(count, NOTE_DTYPE)
    notes["onset"] = rng.uniform(0, seconds - 1, count)
    notes["offset"] = notes["onset"] + rng.uniform(0.05, 0.8, count)
    notes["program"] = rng.choice([0, 25, 33, 48, 73, 100, 128], count)
    notes["is_drum"] = notes["program"] == 128
    notes["pitch"] = np.where(notes["is_drum"], rng.choice([36, 38, 42], count), rng.integers(40, 84, count))
    tokenizer = NoteTokenizer.from_task("mc13_full_plus_256", segment_samples=32767, max_length=256)
    windows = int(seconds * 16000 // 32767)
    ids = tokenizer.encode(tokenizer.target_notes(notes), num_windows=windows)
    return torch.from_numpy((ids != PAD).sum(2))


def against_growing_caches(size: str, seconds: float, windows: int, pairs: int) -> None:
    """A whole song of 13 channels whose rows end where reference labels do; the baseline takes ``windows``
    at a time."""
    lengths = reference_lengths(seconds)
    decoder = build_decoder(size, 257)
    memory = torch.randn(lengths.numel(), 110, SIZES[size][0])
    rows = windows * lengths.shape[1]
    options = DecodingOptions(256, PAD, EOS, expected_length=short_length(256))

    def run_ours() -> list[int]:
        constraint = ForcedLengths(lengths.flatten(), SIZES[size][4])
        parts = (memory[start : start + rows] for start in range(0, len(memory), rows))
        found = decode_stream(DecoderWeights(decoder), parts, options, constraint=constraint)
        return [len(row.ids) for row in sorted(found, key=lambda row: row.number)]

    def run_theirs() -> None:
        for start in range(0, len(memory), rows):
            part = slice(start, start + rows)
            growing_cache_decode(decoder, memory[part], lengths.flatten()[part], pad_id=PAD, eos_id=EOS)

    assert run_ours() == lengths.flatten().tolist()
    taken, ratio = alternate(run_ours, run_theirs, pairs)
    print(
        f"a song of {seconds:.0f} s, 13 channels, {size}, {int(lengths.sum())} tokens in {lengths.numel()} "
        f"rows of {int(lengths.min())} to {int(lengths.max())}: {seconds / taken:.2f} s of music per CPU "
        f"second; growing caches without compaction take {ratio:.1f}x as long",
        flush=True,
    )


def precisions(size: str, rows: int = 32, tokens: int = 64) -> None:
    """Decode rate of each number format, and how far its logits and tokens are from those of float32."""
    decoder = build_decoder(size, tokens + 1)
    with torch.no_grad():
        decoder.lm_head.weight[:2] = 0.0
    memory = torch.randn(rows, 110, SIZES[size][0])
    options = DecodingOptions(tokens, PAD, EOS)
    exact = generate(DecoderWeights(decoder, "32"), memory, options).ids
    for name in ("32", "bf16", "int8"):
        weights = DecoderWeights(decoder, name)
        got = generate(weights, memory, options).ids
        first = (got == exact[:, : got.shape[1]]).int().cumprod(1).sum(1).float().mean()
        taken = statistics.median(
            cpu_seconds(lambda w=weights: generate(w, memory, options)) for _ in range(3)
        )
        print(
            f"decode precision {name}, {size}, {rows} rows, 110 frames: {rows * tokens / taken:.0f} tokens "
            f"per CPU second; on random weights the first {first:.0f} of {tokens} tokens of a row equal "
            "those of 32",
            flush=True,
        )


def training_step(tokens: int = 160, length: int = 1024) -> None:
    """Forward and backward of a Perceiver-TF on one segment of 4.096 s, real labels against labels padded to
    the full length."""
    audio = AudioConfig("spec", hop_length=300)
    config = ModelConfig("perceiver-tf", pre_encoder=PreEncoderConfig("conv"), pre_decoder_type="linear")
    torch.manual_seed(0)
    model = build_model(config, audio, 801, 1, max_length=length)
    sound = torch.randn(1, 1, audio.segment_samples) * 0.1
    labels = torch.randint(3, 801, (1, 1, tokens))
    labels[..., -1] = EOS
    padded = torch.nn.functional.pad(labels, (0, length - tokens))

    def step(target: Tensor) -> None:
        token_cross_entropy(model(sound, target), target).backward()
        model.zero_grad()

    with FlopCounterMode(display=False) as counter:
        step(labels)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step(labels)
    real = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken, ratio = alternate(lambda: step(labels), lambda: step(padded), 3)
    full = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"training step, default network, {tokens} label tokens: {taken:.2f} CPU s, "
        f"{counter.get_total_flops() / taken / matrix_rate():.0%} of the rate of large products; padded to "
        f"{length}: {ratio:.1f}x as long; peak memory of the process {max(before, real) / 2**20:.2f} and "
        f"{full / 2**20:.2f} GB",
        flush=True,
    )


def main() -> None:
    torch.set_num_threads(1)
    parts = sys.argv[1:] or ["step", "transformers", "song", "precision"]
    for part in parts:
        if part == "step":
            training_step()
        elif part == "transformers":
            against_transformers("128 x 2", 41, 64, 5)
            against_transformers("512 x 8", 41, 64, 3)
            against_transformers("512 x 8", 110, 160, 3)
        elif part == "song":
            against_growing_caches("128 x 2", 180, 8, 1)
            against_growing_caches("512 x 8", 45, 8, 1)
        elif part == "precision":
            precisions("512 x 8")
        else:
            raise SystemExit(f"unknown part {part!r}; known: step, transformers, song, precision")


if __name__ == "__main__":
    main()
