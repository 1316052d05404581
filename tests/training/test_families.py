"""Every kind of network trains, validates, and transcribes from its checkpoint."""

import csv

import numpy as np
import pytest

from amt.inference import load_transcriber
from amt.model.checkpoint_file import model_weights, read_checkpoint

SHORT = {"trainer__max_steps": 2, "trainer__val_interval": 2}
FRAMES = {
    "audio__codec": "melspec",
    "audio__n_mels": 32,
    "model__pre_encoder__type": "none",
    "model__pre_encoder__time_stride": 1,
    "model__pre_decoder_type": "none",
}
FAMILIES = {
    "multi-t5": {
        "task": "mc13_256",
        "model__decoder_type": "multi-t5",
        "model__pre_decoder_type": "mc_shared_linear",
        "model__encoder__num_latents": 26,
    },
    "t5": FRAMES
    | {
        "task": "mt3_full_plus",
        "model__encoder_type": "t5",
        "model__t5_encoder__num_layers": 1,
        "model__t5_encoder__num_heads": 2,
        "model__t5_encoder__d_kv": 8,
        "model__t5_encoder__d_ff": 48,
        "model__t5_encoder__position_encoding": "trainable",
    },
    "conformer": FRAMES
    | {
        "task": "mt3_full_plus",
        "model__encoder_type": "conformer",
        "model__conformer__num_layers": 2,
        "model__conformer__num_heads": 2,
        "model__conformer__d_ff": 48,
        "model__conformer__layer_drop": 0.3,
    },
    "hftt-mlp": {
        "model__pre_encoder__type": "hftt",
        "model__pre_encoder__time_stride": 1,
        "model__pre_decoder_type": "mlp_gelu",
    },
    "res3b_hftt-group_linear": {
        "model__pre_encoder__type": "res3b_hftt",
        "model__pre_encoder__time_stride": 1,
        "model__pre_decoder_type": "group_linear",
    },
    "conv1d_t-conv4": {
        "model__pre_encoder__type": "conv1d_t",
        "model__pre_encoder__time_stride": 1,
        "model__pre_decoder_type": "conv4",
    },
}


@pytest.mark.parametrize("family", FAMILIES)
def test_train_validate_transcribe(tiny, sines, tmp_path, family):
    folder = tmp_path / "p" / family
    assert tiny.train(folder, sines, **SHORT, **FAMILIES[family]) == 0
    with open(folder / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["val_loss"]) for row in rows if row.get("val_loss")]
    assert len(losses) == 1
    assert np.isfinite(losses[0])
    last = folder / "checkpoints" / "last.ckpt"
    found = load_transcriber(last, device="cpu").transcribe(np.zeros(20000, dtype=np.float32), 16000)
    assert found.duration == pytest.approx(1.25)


def test_a_pretrained_decoder_is_the_start(tiny, sines, tmp_path, capsys):
    """The folder is read for a run from scratch, and not needed to go on with it."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=20, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, feed_forward_proj="gated-gelu"
    )
    t5 = T5ForConditionalGeneration(config)
    t5.save_pretrained(tmp_path / "t5")
    folder = tmp_path / "p" / "pretrained"
    settings = {
        "pretrained_t5": str(tmp_path / "t5"),
        "optimizer__learning_rate": 1e-9,
        "model__decoder__d_ff": 64,
    }
    assert tiny.train(folder, sines, **(SHORT | settings)) == 0
    assert "tensors of the decoder loaded" in capsys.readouterr().out
    last = folder / "checkpoints" / "last.ckpt"
    weights = model_weights(read_checkpoint(last), last)
    ours = weights["decoder.layers.0.cross_attention.k.weight"]
    theirs = t5.decoder.block[0].layer[1].EncDecAttention.k.weight.detach()
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6)
    (tmp_path / "t5" / "config.json").unlink()
    again = SHORT | settings | {"trainer__max_steps": 3}
    assert tiny.train(folder, sines, checkpoint=last, kind="resume", step=2, **again) == 0
