"""The conformer encoder against that of transformers."""

from __future__ import annotations

import pytest
import torch
from transformers import Wav2Vec2ConformerConfig
from transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer import Wav2Vec2ConformerEncoder

from amt.config import ConformerConfig
from amt.model.encoder.conformer import Conformer

NAMES = [
    ("self_attn_layer_norm", "attention.norm"),
    ("self_attn.linear_q.", "attention.query."),
    ("self_attn.linear_k.", "attention.key."),
    ("self_attn.linear_v.", "attention.value."),
    ("self_attn.linear_out.", "attention.output."),
    ("self_attn.linear_pos.", "attention.distance."),
    ("self_attn.pos_bias_u", "attention.content_bias"),
    ("self_attn.pos_bias_v", "attention.distance_bias"),
    ("ffn1_layer_norm", "feed_forward1.norm"),
    ("ffn2_layer_norm", "feed_forward2.norm"),
    ("ffn1.", "feed_forward1."),
    ("ffn2.", "feed_forward2."),
    ("intermediate_dense", "dense1"),
    ("output_dense", "dense2"),
    ("conv_module.layer_norm", "convolution.norm"),
    ("conv_module.pointwise_conv", "convolution.pointwise"),
    ("conv_module.depthwise_conv", "convolution.depthwise"),
    ("conv_module.batch_norm", "convolution.batch_norm"),
    ("final_layer_norm", "norm"),
]


def our_name(theirs):
    name = theirs.replace("layer_norm", "norm", 1) if theirs.startswith("layer_norm") else theirs
    for old, new in NAMES:
        name = name.replace(old, new)
    return name


def make(kind, width=24, heads=3, layers=2):
    config = ConformerConfig(
        num_heads=heads, num_layers=layers, d_ff=40, conv_kernel=7, position_encoding=kind, layer_drop=0.5
    )
    return Conformer(config, width)


@pytest.mark.parametrize("kind", ["rotary", "relative", "none"])
def test_against_transformers(kind):
    """With its attention bug-for-bug: rotary positions come before the query and key matrices there too."""
    theirs = Wav2Vec2ConformerEncoder(
        Wav2Vec2ConformerConfig(
            hidden_size=24,
            num_attention_heads=3,
            num_hidden_layers=2,
            intermediate_size=40,
            conv_depthwise_kernel_size=7,
            position_embeddings_type=None if kind == "none" else kind,
            hidden_act="gelu",
            max_source_positions=50,
            num_conv_pos_embedding_groups=3,  # of a convolution that it makes and never calls
        )
    ).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
        for name, buffer in theirs.named_buffers():
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    ours = make(kind).eval()
    ours.load_state_dict(
        {
            our_name(name): value
            for name, value in theirs.state_dict().items()
            if not name.startswith(("embed_positions", "pos_conv_embed"))
        }
    )
    x = torch.randn(2, 19, 24)
    torch.testing.assert_close(ours(x), theirs(x).last_hidden_state, atol=1e-5, rtol=1e-4)


def test_layer_drop_leaves_whole_layers_out_and_keeps_gradients():
    model = make("rotary", layers=1)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
    x = torch.randn(3, 9, 24)
    outs = [model(x) for _ in range(24)]
    skipped = [torch.allclose(y, model.norm(x)) for y in outs]
    assert 4 <= sum(skipped) <= 20
    outs[skipped.index(True)].sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    model.eval()
    assert torch.equal(model(x), model(x))


@pytest.mark.parametrize("kind", ["rotary", "relative"])
def test_positions_tell_frames_apart(kind):
    """Without positions and convolutions the same frame gives the same state everywhere."""
    for name, expected in ((kind, False), ("none", True)):
        model = make(name).eval()
        for layer in model.layers:
            torch.nn.init.zeros_(layer.convolution.pointwise2.weight)
        row = torch.randn(24)
        x = torch.stack([row, row.flip(0), row.roll(3), row])[None]
        y = model(x)[0]
        assert torch.allclose(y[0], y[3], atol=1e-6) is expected
