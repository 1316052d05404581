"""Projections between encoder and decoder."""

from __future__ import annotations

import pytest
import torch

from amt.config import ModelConfig, PerceiverTFConfig, PreEncoderConfig, T5DecoderConfig
from amt.config.model import PRE_DECODER_TYPES
from amt.model.projection import build_projection
from amt.model.projection.grouped import ChannelLinear, ChannelSplit

# Published names (left) and ours.
NAMES = {
    "projection_layer.": "",
    "linear.": "",
    "fc.": "output.",
    "layers.1.": "linear1.",
    "layers.2.": "norm1.",
    "layers.4.": "linear2.",
    "layers.5.": "norm2.",
    "layers.7.": "linear3.",
}


def model_config(kind, latents=4, d_latent=16, width=32):
    encoder = PerceiverTFConfig(
        num_latents=latents, d_latent=d_latent, d_model=d_latent, qk_channels=16, v_channels=16, num_heads=4
    )
    decoder_type = "multi-t5" if kind == "mc_shared_linear" else "t5"
    return ModelConfig(
        "perceiver-tf",
        decoder_type,
        pre_encoder=PreEncoderConfig("conv"),
        encoder=encoder,
        pre_decoder_type=kind,
        decoder=T5DecoderConfig(d_model=width),
    )


def load(module, vectors):
    state = {}
    for key, value in vectors.items():
        if key.startswith("sd/"):
            name = key[3:]
            for old, new in NAMES.items():
                if name.startswith(old):
                    name = new + name.removeprefix(old)
            state[name] = value
    module.load_state_dict(state)


@pytest.mark.parametrize("kind", ["linear", "mlp", "mlp_gelu", "conv1", "conv4", "group_linear"])
def test_published(golden, kind):
    vectors = golden(f"proj_{kind}")
    module = build_projection(model_config(kind), 1)
    load(module, vectors)
    torch.testing.assert_close(module(vectors["in/x"]), vectors["out/y"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("width", "kind"), [(32, ChannelSplit), (20, ChannelLinear)])
def test_published_channels(golden, width, kind):
    vectors = golden(f"proj_mc_shared_linear_{width}")
    module = build_projection(model_config("mc_shared_linear", latents=6, width=width), 3)
    assert type(module) is kind
    load(module, vectors)
    torch.testing.assert_close(module(vectors["in/x"]), vectors["out/y"], atol=1e-5, rtol=1e-5)


def test_mlp_relu_bends_where_mlp_does_not():
    plain, relu = (build_projection(model_config(kind), 1) for kind in ("mlp", "mlp_relu"))
    relu.load_state_dict(plain.state_dict())
    x = torch.randn(2, 3, 4, 16)
    y = relu.norm1(relu.linear1(x.flatten(2))).clamp(min=0)
    y = relu.norm2(relu.linear2(y)).clamp(min=0)
    torch.testing.assert_close(relu(x), relu.linear3(y))
    assert not torch.allclose(relu(x), plain(x))


@pytest.mark.parametrize(
    "kind", [kind for kind in PRE_DECODER_TYPES if kind not in ("none", "mc_shared_linear")]
)
@pytest.mark.parametrize(("latents", "d_latent", "width"), [(5, 64, 80), (1, 64, 64)])
def test_all_sizes(kind, latents, d_latent, width):
    module = build_projection(model_config(kind, latents, d_latent, width), 1)
    y = module(torch.randn(2, 3, latents, d_latent))
    assert y.shape == (2, 3, width)
    y.square().mean().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in module.parameters())


def test_channels_get_consecutive_latents():
    module = build_projection(model_config("mc_shared_linear", latents=6, width=20), 3)
    x = torch.randn(2, 5, 6, 16, requires_grad=True)
    gradient = torch.autograd.grad(module(x)[:, 1].square().sum(), x)[0]
    assert gradient.abs().sum((0, 1, 3)).nonzero()[:, 0].tolist() == [2, 3]
