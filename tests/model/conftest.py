"""Shared by the tests of the network: golden files, published weights, small configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from amt.config import AudioConfig, ModelConfig, PerceiverTFConfig, PreEncoderConfig, T5DecoderConfig
from amt.model.decoder import T5Decoder
from script_loading import load_samples, load_script
from small_networks import small_encoder
from small_networks import small_model as small_network

GOLDEN = Path(__file__).parents[1] / "golden" / "model"

# Names of published checkpoints (left) and of this network (right), applied in order.
PUBLISHED_NAMES = [
    (r"^pre_encoder\.0\.", "pre_encoder."),
    (r"^pre_decoder\.0\.projection_layer\.", "pre_decoder."),
    (r"^lm_head\.lm_head\.", "decoder.lm_head."),
    (r"^embed_tokens\.", "decoder.embed."),
    (r"latent_array\.latents$", "latents"),
    (r"pos_emb\._pos_emb$", "positions"),
    (r"pos_emb\._pos_emb_temporal$", "temporal_positions"),
    (r"spectral_cross_attention\.self\.layernorm1\.", "cross_attention.query_norm."),
    (r"spectral_cross_attention\.self\.layernorm2\.", "cross_attention.key_norm."),
    (r"spectral_cross_attention\.(self\.|output\.(?=dense))", "cross_attention."),
    (r"(local|temporal)_transformer\.", r"\1_layers."),
    (r"\.attention\.self\.layernorm1\.", ".attention.norm."),
    (r"\.attention\.(self|output)\.", ".attention."),
    (r"attention\.dense\.", "attention.output."),
    (r"_layers\.(\d+)\.layernorm\.", r"_layers.\1.feed_forward.norm."),
    (r"_layers\.(\d+)\.mlp\.", r"_layers.\1.feed_forward.mlp."),
    (r"^decoder\.decoder\.", "decoder."),
    (r"^decoder\.final_layer_norm\.", "decoder.final_norm."),
    (r"^decoder\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias\.", "decoder.relative_bias."),
    (r"^decoder\.block\.(\d+)\.", r"decoder.layers.\1."),
    (r"\.layer\.0\.layer_norm\.", ".self_norm."),
    (r"\.layer\.1\.layer_norm\.", ".cross_norm."),
    (r"\.layer\.2\.layer_norm\.", ".ff_norm."),
    (r"\.layer\.0\.SelfAttention\.", ".self_attention."),
    (r"\.layer\.1\.EncDecAttention\.", ".cross_attention."),
    (r"\.layer\.2\.DenseReluDense\.", ".feed_forward."),
]


def _our_name(published: str) -> str:
    """The name of a published weight in this network."""
    for pattern, replacement in PUBLISHED_NAMES:
        published = re.sub(pattern, replacement, published)
    return published


def published_name(ours: str) -> str:
    """The published name of a weight of this network: the other way round, by hand."""
    name = ours
    for pattern, replacement in [
        (r"^pre_encoder\.", "pre_encoder.0."),
        (r"^pre_decoder\.", "pre_decoder.0.projection_layer."),
        (r"^decoder\.lm_head\.", "lm_head.lm_head."),
        (r"^decoder\.embed\.", "embed_tokens."),
        (r"^encoder\.latents$", "encoder.latent_array.latents"),
        (r"^encoder\.positions$", "encoder.pos_emb._pos_emb"),
        (r"^encoder\.temporal_positions$", "encoder.pos_emb._pos_emb_temporal"),
        (r"^(encoder.*)\.cross_attention\.query_norm\.", r"\1.spectral_cross_attention.self.layernorm1."),
        (r"^(encoder.*)\.cross_attention\.key_norm\.", r"\1.spectral_cross_attention.self.layernorm2."),
        (r"^(encoder.*)\.cross_attention\.output\.", r"\1.spectral_cross_attention.output.dense."),
        (r"^(encoder.*)\.cross_attention\.", r"\1.spectral_cross_attention.self."),
        (r"(local|temporal)_layers\.", r"\1_transformer."),
        (r"(_transformer\.\d+\.attention)\.norm\.", r"\1.self.layernorm1."),
        (r"(_transformer\.\d+\.attention)\.output\.", r"\1.output.dense."),
        (r"(_transformer\.\d+\.attention)\.(query|key|value)\.", r"\1.self.\2."),
        (r"(_transformer\.\d+)\.feed_forward\.norm\.", r"\1.layernorm."),
        (r"(_transformer\.\d+)\.feed_forward\.mlp\.", r"\1.mlp."),
        (r"^decoder\.final_norm\.", "decoder.decoder.final_layer_norm."),
        (r"^decoder\.layers\.(\d+)\.", r"decoder.decoder.block.\1."),
        (r"(block\.\d+)\.self_norm\.", r"\1.layer.0.layer_norm."),
        (r"(block\.\d+)\.cross_norm\.", r"\1.layer.1.layer_norm."),
        (r"(block\.\d+)\.ff_norm\.", r"\1.layer.2.layer_norm."),
        (r"(block\.\d+)\.self_attention\.", r"\1.layer.0.SelfAttention."),
        (r"(block\.\d+)\.cross_attention\.", r"\1.layer.1.EncDecAttention."),
        (r"(block\.\d+)\.feed_forward\.", r"\1.layer.2.DenseReluDense."),
    ]:
        name = re.sub(pattern, replacement, name)
    return name


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def golden() -> Callable[[str], dict[str, Tensor]]:
    """The tensors of one golden file."""

    def load(name: str) -> dict[str, Tensor]:
        with np.load(GOLDEN / f"{name}.npz") as arrays:
            return {key: torch.from_numpy(arrays[key]) for key in arrays.files}

    return load


@pytest.fixture
def golden_json() -> Callable[[str], dict[str, Any]]:
    def load(name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
        return loaded

    return load


@pytest.fixture
def our_name() -> Callable[[str], str]:
    """The name of a published weight in this network."""
    return _our_name


@pytest.fixture
def load_published() -> Callable[..., None]:
    """Load the ``sd/`` entries of a golden file under our names, all of them and nothing else."""

    def load(module: nn.Module, arrays: dict[str, Tensor], prefix: str = "", drop: str = "") -> None:
        state = {
            _our_name(prefix + key[3:]).removeprefix(drop): value
            for key, value in arrays.items()
            if key.startswith("sd/")
        }
        missing, unexpected = module.load_state_dict(state, strict=False)
        assert not unexpected
        assert not [key for key in missing if not key.startswith(("embed.", "lm_head."))]

    return load


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """Published key lists, and files made from them."""
    return load_samples()


@pytest.fixture(scope="session")
def fill_rule() -> ModuleType:
    """The rule by which golden runs filled weights and made audio."""
    return load_script(GOLDEN / "fill_rule.py")


@pytest.fixture
def fill_published(fill_rule: ModuleType) -> Callable[..., None]:
    """Fill a network, or the part of one called ``prefix``, with the weights that the golden fill rule
    derives from published names; those of a part begin at the part. ``name_of`` gives these names."""

    def fill_one(value: Tensor, name: str) -> None:
        filled = fill_rule.filled(name, tuple(value.shape))
        if filled is not None:
            value.copy_(torch.from_numpy(filled))

    def fill(model: nn.Module, prefix: str = "", name_of: Callable[[str], str] | None = None) -> None:
        for ours, value in model.state_dict().items():
            name = (name_of or published_name)(prefix + ours)
            assert name_of is not None or _our_name(name) == prefix + ours
            name = name.removeprefix(prefix)
            if ".mlp.experts." in name:  # one tensor here, one for each expert there
                base, leaf = name.split(".experts.")
                leaf = leaf.removeprefix("{e}.").removesuffix(".weight")
                for number, expert in enumerate(value):
                    fill_one(expert, f"{base}.experts.{number}.{leaf}.weight")
            else:
                fill_one(value, name)

    return fill


@pytest.fixture
def golden_audio(fill_rule: ModuleType) -> Callable[[int, int, int], Tensor]:
    """The audio of the golden files: (examples, samples, seed) → (B, 1, S)."""
    return lambda examples, samples, seed: torch.from_numpy(fill_rule.audio(examples, samples, seed))


@pytest.fixture
def published_encoder() -> Callable[[dict[str, Any]], PerceiverTFConfig]:
    """Our configuration of a golden Perceiver-TF; what a case leaves out is the published default, and the
    quirks of published positions are values of ours."""

    def convert(config: dict[str, Any]) -> PerceiverTFConfig:
        positions = config.get("position_encoding_type", "trainable") or "none"
        heads = config["num_self_attention_heads"]
        quirks: dict[str, Any] = {}
        if positions == "rope":
            defaults = {"sca": "p", "latent": "p", "temporal": "l"}
            types = (config.get(f"rope_type_{key}", kind) for key, kind in defaults.items())
            quirks = {
                "rope_width": heads,
                "rope_partial": config.get("rope_partial_pe", False),
                "rope_types": "".join(types),
            }
        elif positions == "alibi":
            quirks = {"alibi_scale": (config["qk_channels"] / heads) ** -0.5}
        return PerceiverTFConfig(
            num_latents=config["num_latents"],
            d_latent=config["d_latents"],
            d_model=config["d_model"],
            qk_channels=config["qk_channels"],
            v_channels=config["v_channels"],
            num_heads=heads,
            num_blocks=config["num_blocks"],
            num_local_layers=config["num_local_transformers_per_block"],
            num_temporal_layers=config["num_temporal_transformers_per_block"],
            sca_query_residual=config["sca_use_query_residual"],
            attention_to_channel=config.get("attention_to_channel", False),
            ff_type=config.get("ff_layer_type", "mlp"),
            ff_widening=config.get("ff_widening_factor", 1),
            moe_num_experts=config.get("moe_num_experts", 4),
            moe_topk=config.get("moe_topk", 2),
            hidden_act=config.get("hidden_act", "gelu"),
            position_encoding=positions,
            **quirks,
        )

    return convert


@pytest.fixture
def stored_part() -> Callable[[Tensor, dict[str, Tensor], str], Tensor]:
    """The entries of a whole tensor that a golden file keeps under that name."""

    def part(full: Tensor, vectors: dict[str, Tensor], name: str) -> Tensor:
        assert list(full.shape) == vectors[f"{name}_shape"].tolist(), name
        return full[tuple(slice(None, None, int(step)) for step in vectors[f"{name}_stride"])]

    return part


class _Stored(nn.Module):
    """Stands for the front end and gives one spectrogram."""

    def __init__(self, spectrogram: Tensor) -> None:
        super().__init__()
        self.register_buffer("spectrogram", spectrogram)

    def forward(self, audio: Tensor) -> Tensor:
        return self.spectrogram


@pytest.fixture
def pin_spectrogram(
    stored_part: Callable[[Tensor, dict[str, Tensor], str], Tensor],
) -> Callable[[nn.Module, Tensor, dict[str, Tensor]], None]:
    """Give a network the spectrogram of the published run, whose two extremes were rounded by another FFT.

    The smallest magnitude of a segment is all cancellation, and it is in the scaling of every bin: with this
    machine's FFT, torchaudio's own layer differs from the stored values by as much. Scale and offset are
    fitted for each example, so that the later stages can be compared closely.
    """

    def pin(model: Any, audio: Tensor, vectors: dict[str, Tensor]) -> None:
        spec = model.frontend(audio).double()
        ours, stored = stored_part(spec, vectors, "spec"), vectors["spec"].double()
        torch.testing.assert_close(ours, stored, atol=1e-4, rtol=0)
        mean, stored_mean = (x.mean((1, 2), keepdim=True) for x in (ours, stored))
        scale = ((ours - mean) * (stored - stored_mean)).sum((1, 2), keepdim=True)
        scale = scale / (ours - mean).square().sum((1, 2), keepdim=True)
        model.frontend = _Stored((scale * (spec - mean) + stored_mean).float())
        pinned = stored_part(model.frontend(audio), vectors, "spec")
        torch.testing.assert_close(pinned, vectors["spec"], atol=3e-6, rtol=0)

    return pin


@pytest.fixture
def decoder_that_ends() -> Callable[..., T5Decoder]:
    """Makes decoders of 40 tokens with random weights under which rows end at many different steps, some at
    the first, some never; token 1 ends."""

    def make(positions: str, max_length: int = 200, logit_scale: float = 1.0) -> T5Decoder:
        torch.manual_seed(2)
        config = T5DecoderConfig(d_model=32, num_heads=4, d_kv=8, num_layers=2, position_encoding=positions)
        decoder = T5Decoder(config, 40, max_length, logit_scale).eval()
        decoder.lm_head.weight.data.normal_()
        decoder.lm_head.weight.data[1] *= 1.8 if positions == "trainable" else 1.0
        for name, parameter in decoder.named_parameters():
            if "norm" in name:
                parameter.data.uniform_(0.5, 1.5)
            elif name.endswith(("attention.o.weight", ".wo.weight")):
                parameter.data.mul_(3.0)
        return decoder

    return make


@pytest.fixture
def quick_model() -> ModelConfig:
    """The network of the quick start."""
    return ModelConfig(
        "perceiver-tf",
        pre_encoder=PreEncoderConfig(type="strided", out_channels=32, time_stride=2),
        pre_decoder_type="linear",
        encoder=PerceiverTFConfig(
            num_latents=4,
            d_latent=64,
            d_model=64,
            qk_channels=64,
            v_channels=64,
            num_heads=4,
            num_blocks=1,
            num_local_layers=1,
            num_temporal_layers=1,
            ff_widening=2,
            norm_type="rms_norm",
            sca_feed_forward=True,
            attention_to_channel=False,
            position_encoding="sinusoidal",
            dropout=0.0,
            init_std=0.08,
        ),
        decoder=T5DecoderConfig(
            d_model=128, num_heads=4, d_kv=32, num_layers=2, dropout=0.0, position_scale=0.3
        ),
        memory_positions="sinusoid",
        memory_norm=True,
        shift_embedding_init="sinusoid",
        frame_groups=("voice",),
    )


@pytest.fixture
def quick_audio() -> AudioConfig:
    return AudioConfig(codec="logspec", segment_samples=24000, hop_length=300)


@pytest.fixture
def small_model() -> ModelConfig:
    """A small network of the published kind."""
    return small_network(
        T5DecoderConfig(d_model=24, num_heads=3, d_kv=8, num_layers=2),
        small_encoder(num_latents=3, num_heads=4, num_blocks=2),
        PreEncoderConfig("conv", out_channels=8),
    )


@pytest.fixture
def small_audio() -> AudioConfig:
    return AudioConfig(codec="melspec", segment_samples=4000, hop_length=300, n_mels=64)
