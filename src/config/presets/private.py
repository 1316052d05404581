"""Presets whose data are not public, and mixtures with them.

Nothing but their names is known outside, so members and weights are choices of this project; change them
here, no other file holds them. Each needs a store of its name, built from the user's own copy of the data.
"""

from __future__ import annotations

from .records import MultiPreset, SinglePreset, preset
from .yourmt3_mixes import FINAL_MEMBERS, FINAL_VOCABS, FINAL_WEIGHTS, mix

SINGLE: tuple[SinglePreset, ...] = (
    preset("picogen", "picogen", "train", "validation", "test"),
    preset("sheetsage", "sheetsage", "train", "validation", "test", vocab="singing_solo"),
    preset("hooktheory", "hooktheory", "train", "validation", "test", vocab="singing_solo"),
    preset("hooktheory_yourmt3_16k", "hooktheory", "train", "validation", "test", vocab="singing_solo"),
)

_ADDED_TO_PICOGEN = {"picogen": 0.30, "hooktheory": 0.10}
_ADDED_SINGING = {"sheetsage": 0.06, "hooktheory": 0.04, "mir1k": 0.02}


def _added(name: str, shares: dict[str, float]) -> MultiPreset:
    """``all_cross_final`` with further members of the given shares; its own members keep the rest."""
    rest = (1.0 - sum(shares.values())) / sum(FINAL_WEIGHTS)
    return mix(
        name,
        (*FINAL_MEMBERS, *shares),
        (*(weight * rest for weight in FINAL_WEIGHTS), *shares.values()),
        (*FINAL_VOCABS, *(None for _ in shares)),
    )


MULTI: tuple[MultiPreset, ...] = (
    _added("picogen_reweight", _ADDED_TO_PICOGEN),
    _added("singing_add_12", _ADDED_SINGING),
)
"""``singing_add_12``: 12 of 100 segments are of further singing. ``picogen_reweight``: 30 of 100 are of
generated songs and 10 of melodies whose octave is unknown."""
