"""The mixtures of data sets of YourMT3+ (Chang et al. 2024), under their published names.

Where the published tables could not work they are put right: members that do not exist are replaced by the
preset they stand for (``musicnet_mt3_em_synth`` by ``musicnet_mt3_em``, ``musicnet_em_synth_table2`` by
``musicnet_thickstun_em``, ``mir_st500_stem`` by ``mir_st500``), a preset that stood twice in a mixture stands
once with the sum of its weights, and every set is scored by a vocabulary of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from .records import MultiPreset

_VOICE = "singing_solo"
_MMEG = ("slakh", "musicnet_thickstun_em", "mir_st500_voc", "enstdrums_dtp", "guitarset_pshift", "egmd")
_CROSS = (*_MMEG, "urmp", "maestro")
_CROSS_VOCABS = (None, None, _VOICE, None, None, None, None, None)
_STEMS = tuple({"mir_st500_voc": "mir_st500", "enstdrums_dtp": "enstdrums_dtm"}.get(p, p) for p in _CROSS)
_V6 = (
    *("guitarset" if p == "guitarset_pshift" else p for p in _CROSS),
    *("idmt_smt_bass", "cmedia_voc"),
)
_V6_VOCABS = (*_CROSS_VOCABS, "bass_solo", _VOICE)
_V6_WEIGHTS = (0.295, 0.19, 0.19, 0.05, 0.01, 0.005, 0.1, 0.1, 0.01, 0.05)
_V7 = tuple("guitarset_progression_pshift" if p == "guitarset" else p for p in _V6)
_V7_WEIGHTS = (0.295, 0.19, 0.191, 0.05, 0.01, 0.004, 0.1, 0.1, 0.01, 0.05)
FINAL_MEMBERS = tuple({"slakh": "slakh_final", "maestro": "maestro_final"}.get(p, p) for p in _V7)
"""Members of ``all_cross_final``."""
FINAL_WEIGHTS = _V7_WEIGHTS
"""Their weights."""
FINAL_VOCABS = _V6_VOCABS
"""Their evaluation vocabularies."""


def mix(
    name: str,
    presets: Sequence[str],
    weights: Sequence[float],
    vocabs: Sequence[str | None] = (),
    *,
    drums: str | None = "ksh",
    files: int = 20,
) -> MultiPreset:
    """A mixture scored by one drum vocabulary, validated on the first ``files`` songs of each set."""
    count = len(presets)
    return MultiPreset(
        name,
        tuple(presets),
        tuple(weights),
        tuple(vocabs) or (None,) * count,
        (drums,) * count,
        (files,) * count,
    )


def _small(name: str, presets: Sequence[str], weights: Sequence[float]) -> MultiPreset:
    return mix(name, presets, weights, drums=None, files=0)


def _with_guitar(guitar: str, drums: str = "enstdrums_dtp") -> tuple[str, ...]:
    return ("slakh", "musicnet_thickstun_em", "mir_st500_voc", drums, guitar)


def _with_musicnet(musicnet: str, guitar: str, count: int) -> tuple[str, ...]:
    swap = {"musicnet_thickstun_em": musicnet, "guitarset_pshift": guitar}
    return tuple(swap.get(p, p) for p in _CROSS)[:count]


_FIFTHS = (0.2,) * 5
_URMP_WEIGHTS = (0.5, 0.2, 0.1, 0.05, 0.05, 0.0125, 0.1)
_MAESTRO_WEIGHTS = (0.5, 0.1, 0.1, 0.05, 0.05, 0.0125, 0.1, 0.1)
_GEERDES = ("geerdes_half", "geerdes_half_sep")

MULTI: tuple[MultiPreset, ...] = (
    _small("musicnet_mt3_em_synth_plus_maps", ("musicnet_mt3_em", "maps_all"), (0.6, 0.4)),
    _small("musicnet_em_synth_table2_plus_maps", ("musicnet_thickstun_em", "maps_all"), (0.6, 0.4)),
    _small("musicnet_em_synth_table2_plus_maps_multi", ("musicnet_thickstun_em", "maps_default"), (0.6, 0.4)),
    _small("guitarset_progression_plus_maps", ("guitarset_progression", "maps_all"), (0.5, 0.5)),
    _small("guitarset_pshift_plus_maps", ("guitarset_pshift", "maps_default"), (0.6, 0.4)),
    _small("guitarset_pshift_plus_musicnet_thick", ("guitarset_pshift", "musicnet_thickstun_em"), (0.5, 0.5)),
    _small("multi_sanity_check", ("musicnet_mt3_synth_only",), (1.0,)),
    mix("all_mmegs", _with_guitar("guitarset_pshift"), _FIFTHS),
    *(
        mix(f"all_gt_cv{fold}", _with_guitar(f"guitarset_minus_{style}"), _FIFTHS)
        for fold, style in enumerate(("bn", "funk", "ss", "rock", "jazz"))
    ),
    mix("all_enstdrums_random", _with_guitar("guitarset", "enstdrums_random"), _FIFTHS),
    mix(
        "all_plus_egmd",
        (*_with_guitar("guitarset", "enstdrums_random_plus_dtd"), "egmd"),
        (0.2, 0.2, 0.2, 0.1, 0.1, 0.2),
    ),
    mix("all_dtp_egmd", (*_with_guitar("guitarset"), "egmd"), (0.2, 0.2, 0.2, 0.1, 0.1, 0.2)),
    mix("all_weighted_slakh", _MMEG, (0.5, 0.1, 0.1, 0.05, 0.05, 0.2)),
    mix(
        "all_weighted_mt3",
        _with_musicnet("musicnet_mt3", "guitarset_progression_pshift", 6),
        (0.5, 0.1, 0.1, 0.05, 0.05, 0.2),
    ),
    mix(
        "all_weighted_mt3_em",
        _with_musicnet("musicnet_mt3_em", "guitarset_progression_pshift", 6),
        (0.5, 0.1, 0.1, 0.05, 0.05, 0.2),
    ),
    mix("all_urmp", (*_MMEG, "urmp"), (0.5, 0.2, 0.1, 0.05, 0.05, 0.05, 0.1)),
    mix("all_urmp_mt3", _with_musicnet("musicnet_mt3", "guitarset_progression", 7), _URMP_WEIGHTS),
    mix("all_urmp_mt3_em", _with_musicnet("musicnet_mt3_em", "guitarset_progression", 7), _URMP_WEIGHTS),
    mix("all_maestro", _CROSS, (0.5, 0.1, 0.125, 0.075, 0.025, 0.01, 0.1, 0.1)),
    mix("all_maestro_mt3", _with_musicnet("musicnet_mt3", "guitarset_progression", 8), _MAESTRO_WEIGHTS),
    mix(
        "all_maestro_mt3_em", _with_musicnet("musicnet_mt3_em", "guitarset_progression", 8), _MAESTRO_WEIGHTS
    ),
    mix("singing_v1", ("slakh", "mir_st500"), (0.8, 0.2), (None, _VOICE)),
    mix("minimal", ("slakh", "mir_st500_voc"), (0.8, 0.2), (None, _VOICE)),
    mix("singing_debug", ("mir_st500_voc_debug",), (1.0,), (_VOICE,)),
    mix(
        "all_singing_v1",
        tuple("mir_st500" if p == "mir_st500_voc" else p for p in _CROSS),
        _MAESTRO_WEIGHTS,
        _CROSS_VOCABS,
    ),
    mix("all_singing_drum_v1", _STEMS, _MAESTRO_WEIGHTS, _CROSS_VOCABS),
    mix("all_cross", _CROSS, (0.5, 0.1, 0.125, 0.075, 0.025, 0.01, 0.1, 0.1), _CROSS_VOCABS),
    mix("all_cross_rebal", _CROSS, (0.4, 0.15, 0.15, 0.075, 0.025, 0.01, 0.1, 0.1), _CROSS_VOCABS),
    mix("all_cross_rebal2", _CROSS, (0.275, 0.19, 0.19, 0.1, 0.025, 0.02, 0.1, 0.1), _CROSS_VOCABS),
    mix("all_cross_rebal4", _CROSS, (0.258, 0.19, 0.2, 0.125, 0.022, 0.005, 0.1, 0.1), _CROSS_VOCABS),
    mix("all_cross_rebal5", _CROSS, (0.295, 0.19, 0.24, 0.05, 0.02, 0.005, 0.1, 0.1), _CROSS_VOCABS),
    mix("all_cross_stem", _STEMS, (0.4, 0.15, 0.15, 0.075, 0.025, 0.01, 0.1, 0.1), _CROSS_VOCABS),
    mix("all_cross_stem_rebal3", _STEMS, (0.265, 0.18, 0.21, 0.1, 0.025, 0.02, 0.1, 0.1), _CROSS_VOCABS),
    mix("all_cross_v6", _V6, _V6_WEIGHTS, _V6_VOCABS),
    mix(
        "all_cross_v6_geerdes",
        (*_V6, *_GEERDES),
        (0.295, 0.19, 0.19, 0.05, 0.01, 0.005, 0.075, 0.075, 0.01, 0.05, 0.025, 0.025),
        (*_V6_VOCABS, "gm_plus", "gm_plus"),
    ),
    mix(
        "all_cross_v6_geerdes_rebal",
        (*_V6, *_GEERDES),
        (0.245, 0.175, 0.19, 0.05, 0.01, 0.005, 0.075, 0.05, 0.01, 0.05, 0.075, 0.075),
        (*_V6_VOCABS, "gm_ext_plus", "gm_ext_plus"),
    ),
    mix("all_cross_v7", _V7, _V7_WEIGHTS, _V6_VOCABS),
    mix("all_cross_final", FINAL_MEMBERS, FINAL_WEIGHTS, FINAL_VOCABS),
    mix(
        "all_eval_final",
        (
            *("slakh", "musicnet_thickstun", "musicnet_thickstun_em", "musicnet_thickstun_ext"),
            *("musicnet_thickstun_ext_em", "mir_st500_voc", "mir_st500", "enstdrums_dtp", "enstdrums_dtm"),
            *("guitarset_progression_pshift", "rwc_pop_bass", "maestro", "urmp", "maps_default"),
            "rwc_pop_full",
        ),
        (1.0,) * 15,
        files=0,
    ),
    mix("geerdes_eval", ("geerdes_sep", "geerdes"), (1.0, 1.0), ("gm_plus",) * 2, drums="gm", files=0),
    mix(
        "geerdes_half_eval",
        ("geerdes_half_sep", "geerdes_half"),
        (1.0, 1.0),
        ("gm_plus",) * 2,
        drums="gm",
        files=0,
    ),
)
