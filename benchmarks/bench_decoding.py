"""Greedy decoding against transformers' T5 with its own cache: equal weights, batch 32, one thread.

Prints CPU seconds of both and their ratio (ours is the faster above 1).
"""

from __future__ import annotations

import statistics
import time

import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from amt.config import T5DecoderConfig
from amt.model.decoder import T5Decoder, greedy_decode

BATCH, FRAMES, TOKENS = 32, 41, 64
NEVER = 0
"""Token whose logit is kept low, so that no row ends early in either system."""


def build(
    width: int, layers: int, heads: int, d_kv: int, vocabulary: int
) -> tuple[T5Decoder, T5ForConditionalGeneration]:
    """Our decoder and transformers' with the same weights."""
    torch.manual_seed(0)
    config = T5DecoderConfig(
        d_model=width, num_heads=heads, d_kv=d_kv, num_layers=layers, position_encoding="trainable"
    )
    ours = T5Decoder(config, vocabulary, TOKENS + 1).eval()
    theirs = T5ForConditionalGeneration(
        T5Config(
            vocab_size=vocabulary,
            d_model=width,
            d_kv=d_kv,
            d_ff=width * config.ff_widening,
            num_layers=layers,
            num_decoder_layers=layers,
            num_heads=heads,
            feed_forward_proj="gated-gelu",
            decoder_start_token_id=0,
            pad_token_id=0,
            eos_token_id=1,
            tie_word_embeddings=False,
            scale_decoder_outputs=False,
        )
    ).eval()
    decoder = theirs.decoder
    assert ours.relative_bias is not None
    with torch.no_grad():
        ours.lm_head.weight[:2] = 0.0
        decoder.embed_tokens = torch.nn.Embedding.from_pretrained(ours.embed.weight.clone())
        theirs.lm_head = torch.nn.Linear(width, vocabulary, bias=False)
        theirs.lm_head.weight.copy_(ours.lm_head.weight)
        decoder.final_layer_norm.weight.copy_(ours.final_norm.weight)
        first = decoder.block[0].layer[0].SelfAttention
        first.relative_attention_bias.weight.copy_(ours.relative_bias.weight)
        for block, layer in zip(decoder.block, ours.layers, strict=True):
            for name in ("q", "k", "v", "o"):
                getattr(block.layer[0].SelfAttention, name).weight.copy_(
                    getattr(layer.self_attention, name).weight
                )
                getattr(block.layer[1].EncDecAttention, name).weight.copy_(
                    getattr(layer.cross_attention, name).weight
                )
            for name in ("wi_0", "wi_1", "wo"):
                getattr(block.layer[2].DenseReluDense, name).weight.copy_(
                    getattr(layer.feed_forward, name).weight
                )
    return ours, theirs


def compare(width: int, layers: int, heads: int, d_kv: int, vocabulary: int) -> None:
    """Time one size and print a line."""
    ours, theirs = build(width, layers, heads, d_kv, vocabulary)
    memory = torch.randn(BATCH, FRAMES, width)
    encoded = BaseModelOutput(last_hidden_state=memory)

    def run_ours() -> torch.Tensor:
        return greedy_decode(ours, memory, TOKENS, pad_id=0, eos_id=1)

    def run_theirs() -> torch.Tensor:
        return theirs.generate(
            encoder_outputs=encoded,
            attention_mask=torch.ones(BATCH, FRAMES, dtype=torch.int64),
            max_new_tokens=TOKENS,
            min_new_tokens=TOKENS,
            do_sample=False,
            num_beams=1,
        )[:, 1:]

    equal = (run_ours()[:, :TOKENS] == run_theirs()[:, :TOKENS]).float().mean()
    ratios, times = [], []
    for _ in range(3):
        start = time.process_time()
        run_ours()
        middle = time.process_time()
        run_theirs()
        end = time.process_time()
        times.append(middle - start)
        ratios.append((end - middle) / (middle - start))
    print(
        f"width {width:3d}, {layers} layers: ours {statistics.median(times):.2f} CPU s, transformers "
        f"{statistics.median(ratios):.2f}x that; {equal:.1%} of tokens equal"
    )


def main() -> None:
    torch.set_num_threads(1)
    compare(128, 2, 4, 32, 540)
    compare(512, 8, 6, 64, 801)


if __name__ == "__main__":
    main()
