"""Shares of the training data sets that follow their validation scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch.distributed as dist
from pytorch_lightning.utilities import rank_zero_info

from ..config.data import DynamicWeighting
from ..data.module import TranscriptionData


class DynamicWeights:
    """After each validation, data sets that are transcribed badly are drawn more often.

    Of every data set the score on its own validation songs is averaged over the validations,
    ``mean = ema * mean + (1 - ema) * score``. Its error ``1 - mean``, divided by the mean error of the sets
    that have one, is the factor it should have; its factor goes there in steps,
    ``factor = momentum * factor + (1 - momentum) * wish``, and stays within ``min_factor`` and
    ``max_factor``. The weight of a draw is the preset's weight times the factor, from the first sample on
    that no loader can have made yet (:meth:`TranscriptionData.first_open_sample`), so that a sample stays a
    function of its number. A set without validation songs, or without a score, keeps its factor.

    Args:
        settings: section DYNAMIC_DATASET_WEIGHTING.
        data: whose weights change; every rank has its own and sees the same scores.

    Raises:
        ValueError: there are not two data sets with validation songs.
    """

    def __init__(self, settings: DynamicWeighting, data: TranscriptionData) -> None:
        self._settings = settings
        self._data = data
        self._sources = {
            item.name: [
                scored.name for scored in data.validation_sets if scored.store.path == item.store.path
            ]
            for item in data.training_sets
        }
        if sum(bool(names) for names in self._sources.values()) < 2:
            raise ValueError(
                "AMT_DYNAMIC_DATASET_WEIGHTING shifts draws between data sets by their validation scores, "
                f"and -d {' '.join(data.experiment.data.presets)} has less than two with validation songs: "
                "name several presets, or leave it off"
            )
        self.means: dict[str, float] = {}
        """Averaged score of each data set that has one."""
        self.factors = dict.fromkeys(self._sources, 1.0)

    def observe(self, scores: Mapping[str, float], consumed_samples: int) -> dict[str, float]:
        """Learn the scores of a validation, change the weights, and return the new shares to be logged.
        All ranks meet here.

        Args:
            scores: all logged values of the validation.
            consumed_samples: samples trained on so far.
        """
        settings = self._settings
        for name, sets in self._sources.items():
            keys = [f"validation/({item}){settings.metric}" for item in sets]
            found = [scores[key] for key in keys if math.isfinite(scores.get(key, math.nan))]
            if found:
                score = fmean(found)
                mean = self.means.get(name, score)
                self.means[name] = settings.ema * mean + (1 - settings.ema) * score
        errors = {name: 1.0 - mean for name, mean in self.means.items()}
        if errors and (typical := fmean(errors.values())) > 0:
            for name, error in errors.items():
                factor = settings.momentum * self.factors[name] + (1 - settings.momentum) * error / typical
                self.factors[name] = min(max(factor, settings.min_factor), settings.max_factor)
        weights = [item.weight * self.factors[item.name] for item in self._data.training_sets]
        first = self._furthest(self._data.first_open_sample(consumed_samples))
        if known := self._data.weights.state():  # of a start whose loaders were further ahead, perhaps
            first = max(first, int(known[-1][0]) + 1)
        self._data.weights.add(first, weights)
        total = sum(weights)
        return {
            f"dataset_share/{item.name}": weight / total
            for item, weight in zip(self._data.training_sets, weights, strict=True)
        }

    def _furthest(self, sample: int) -> int:
        """The largest of all ranks: on a machine with fewer cores fewer loaders are less far ahead."""
        found = [sample] * self._data.world_size
        if self._data.world_size > 1:
            dist.all_gather_object(found, sample)
        return max(found)

    def state(self) -> dict[str, Any]:
        """For the checkpoint, in plain types."""
        return {"means": self.means, "factors": self.factors, "table": self._data.weights.state()}

    def load(self, state: Mapping[str, Any] | None) -> None:
        """Go on as saved; with other data sets, or a run that had none of this, begin anew and say so."""
        if not state or list(state["factors"]) != list(self.factors):  # the table goes by their order
            rank_zero_info("dynamic weights: the checkpoint has none for these data sets; they begin at 1")
            return
        self.means = {name: float(value) for name, value in state["means"].items()}
        self.factors = {name: float(value) for name, value in state["factors"].items()}
        self._data.weights.load(state["table"])
