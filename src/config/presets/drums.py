"""Data sets of drums: ``dtd`` drums alone, ``dtp`` drums with percussion, ``dtm`` drums in a mixture."""

from __future__ import annotations

from .records import SinglePreset, preset


def _enstdrums(name: str, train: tuple[str, ...], validation: str, test: str) -> SinglePreset:
    return preset(name, "enstdrums", train, validation, test, drums="ksh")


SINGLE: tuple[SinglePreset, ...] = (
    _enstdrums("enstdrums_dtp", ("drummer_1_dtp", "drummer_2_dtp"), "drummer_1_dtp", "drummer_3_dtp"),
    _enstdrums(
        "enstdrums_dtm",
        ("drummer_1_dtm", "drummer_2_dtm", "drummer_1_dtp", "drummer_2_dtp"),
        "drummer_3_dtm_r2",
        "drummer_3_dtm_r1",
    ),
    _enstdrums("enstdrums_random_dtm", ("train_dtm",), "validation_dtm", "test_dtm"),
    _enstdrums("enstdrums_random", ("train_dtp",), "test_dtm", "test_dtm"),
    _enstdrums("enstdrums_random_plus_dtd", ("train_dtp", "all_dtd"), "test_dtm", "test_dtm"),
    preset("egmd", "egmd", "train", "validation", "test_reduced", drums="ksh"),
)
