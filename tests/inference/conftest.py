"""A tiny network and its checkpoint, made once."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from amt.config import BatchSizes, Experiment, T5DecoderConfig
from amt.inference import DecodingChoices, SongTranscriber, Transcription, untrained_transcriber
from small_networks import small_experiment

TINY = small_experiment(
    T5DecoderConfig(d_model=16, num_layers=1, num_heads=2, d_kv=8),
    bsz=BatchSizes(sub=4, local=4, validation=4, test=4),
)


@pytest.fixture(scope="session")
def tiny() -> SongTranscriber:
    return untrained_transcriber(TINY, seed=1, device="cpu")


@pytest.fixture(scope="session")
def lively(tiny: SongTranscriber) -> SongTranscriber:
    """Random weights that write notes when constrained: they close the ties and seldom end."""
    made = untrained_transcriber(tiny.experiment, DecodingChoices(batch_size=3), seed=3, device="cpu")
    decoder, tokenizer = made.model.decoder, made.tokenizer
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(2.0)
        ids = torch.randint(0, tokenizer.vocab_size, (8, 20), generator=torch.Generator().manual_seed(0))
        common = decoder.hidden(ids, torch.zeros(8, 1, 16)).mean((0, 1))
        common /= common.square().sum()
        decoder.lm_head.weight[tokenizer.tie_id] = 20 * common
        decoder.lm_head.weight[tokenizer.eos_id] = -3 * common
        decoder.lm_head.weight[list(tokenizer.token_range("velocity"))] += 10 * common
    return made


@pytest.fixture(scope="session")
def checkpoint(tiny: SongTranscriber) -> dict[str, Any]:
    """What a training run would save."""
    return saved(tiny)


def saved(transcriber: SongTranscriber) -> dict[str, Any]:
    return {
        "amt_format": 1,
        "experiment": transcriber.experiment.to_json(),
        "state_dict": {f"model.{name}": value for name, value in transcriber.model.state_dict().items()},
        "global_step": 7,
    }


@pytest.fixture(scope="session")
def log_dir(
    checkpoint: dict[str, Any], lively: SongTranscriber, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder of runs with the checkpoints ``ymt3/tiny@last.ckpt`` and ``ymt3/lively@last.ckpt``."""
    root = tmp_path_factory.mktemp("logs é")
    for name, content in (("tiny", checkpoint), ("lively", saved(lively))):
        folder = root / "ymt3" / name / "checkpoints"
        folder.mkdir(parents=True)
        torch.save(content, folder / "last.ckpt")
    return root


Recorder = Callable[[SongTranscriber, np.ndarray], tuple[Transcription, dict[int, list[int]]]]


@pytest.fixture(scope="session")
def recorded() -> Recorder:
    """Transcribes samples; gives the result, and the tokens of each row by its number."""

    def run(transcriber: SongTranscriber, song: np.ndarray) -> tuple[Transcription, dict[int, list[int]]]:
        rows: dict[int, list[int]] = {}
        decode = transcriber._decode

        def keep(queue: Any) -> Iterator[Any]:
            for row in decode(queue):
                rows[row.number] = row.ids.tolist()
                yield row

        transcriber._decode = keep  # type: ignore[method-assign]
        result = transcriber.transcribe(song)
        del transcriber._decode
        return result, rows

    return run


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def other_size(tiny: SongTranscriber) -> Experiment:
    """The same run with another number of latents."""
    model = tiny.experiment.model
    return replace(tiny.experiment, model=replace(model, encoder=replace(model.encoder, num_latents=3)))
