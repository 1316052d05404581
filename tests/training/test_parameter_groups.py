"""Weight decay over the whole model family: matrices only, in two groups."""

import pytest

from amt.model.decoder.t5 import T5Decoder
from amt.optim import is_decayed
from amt.tokenizer import NoteTokenizer
from amt.training.module import TranscriptionModule

MEL = {
    "audio.codec": "melspec",
    "audio.n_mels": 32,
    "model.pre_encoder.type": "none",
    "model.pre_encoder.time_stride": 1,
    "model.pre_decoder_type": "none",
}
FAMILIES = {
    "perceiver-tf": {"model.encoder.position_encoding": "trainable"},
    "positions of time, latents and bins": {"model.encoder.position_encoding": "tkd"},
    "slopes": {"model.encoder.position_encoding": "alibit"},
    "experts": {"model.encoder.ff_type": "moe", "model.decoder.ff_type": "moe"},
    "relative": {"model.decoder.position_encoding": "trainable"},
    "t5": {**MEL, "model.encoder_type": "t5", "model.t5_encoder.num_layers": 1},
    "conformer": {
        **MEL,
        "model.encoder_type": "conformer",
        "model.conformer.num_layers": 1,
        "model.conformer.num_heads": 2,
        "model.conformer.position_encoding": "relative",
    },
}
MATRICES = {"Linear", "Conv1d", "Conv2d", "ChannelLinear", "FlatLinear"}
"""Modules whose weights are matrices of a product."""


@pytest.mark.parametrize("name", FAMILIES)
def test_only_matrices_decay(tiny, name):
    experiment = tiny.experiment(**FAMILIES[name], optimizer__weight_decay=0.1)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    module = TranscriptionModule(experiment, tokenizer)
    net = module.model
    assert isinstance(net.decoder, T5Decoder)
    matrices = {
        id(parameter)
        for part in net.modules()
        for own, parameter in part.named_parameters(recurse=False)
        if (type(part).__name__ in MATRICES and own == "weight")
        or (type(part).__name__ == "Experts" and parameter.ndim == 3)
        or part is net.decoder.embed
    }
    decayed = {id(parameter) for name, parameter in net.named_parameters() if is_decayed(name, parameter)}
    assert decayed == matrices
    groups = module.configure_optimizers()["optimizer"].param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert {id(parameter) for parameter in groups[0]["params"]} == matrices
    assert sum(len(group["params"]) for group in groups) == len(list(net.parameters()))
