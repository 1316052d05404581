"""What a run says: rank 0 speaks, the libraries' remarks on things that are meant to be so are left out."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_only

_KNOWN = (
    ".*does not have many workers.*",
    ".*sync_dist=True.*",
    ".*IterableDataset.*__len__.*",
    ".*no `test_dataloader`.*",
    ".*LeafSpec.*",
    ".*overridden `transfer_batch_to_device`.*",
)


class Speaker:
    """Prints on rank 0."""

    def __init__(self, speaks: bool) -> None:
        self.speaks = speaks

    def __call__(self, line: str) -> None:
        if self.speaks:
            print(line, flush=True)


def warn_of_own(text: str) -> None:
    """A warning of what concerns this rank alone, with its number where it is not the first."""
    rank = getattr(rank_zero_only, "rank", 0)
    if rank:
        print(f"warning on rank {rank}: {text}", file=sys.stderr, flush=True)
    else:
        warnings.warn(text, UserWarning, stacklevel=2)


def quiet_libraries(speaks: bool) -> None:
    """Leave out what is known; on ranks that do not speak, every warning about the user's settings."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        for handler in logger.handlers:
            if type(handler) is logging.StreamHandler:
                handler.setStream(_StandardError())
    ours = logging.getLogger("pytorch_lightning.utilities.rank_zero")  # carries this package's rank_zero_info
    ours.setLevel(logging.INFO)
    ours.addFilter(_is_ours)
    for message in _KNOWN:
        warnings.filterwarnings("ignore", message)
    if not speaks:
        warnings.filterwarnings("ignore", category=UserWarning)


class _StandardError:
    """Standard error as it is when something is written: a live bar takes its place for a while, and then
    writes lines above itself instead of into itself."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _is_ours(record: logging.LogRecord) -> bool:
    theirs = {"pytorch_lightning", "lightning_fabric"} & set(Path(record.pathname).parts)
    return not theirs or record.levelno >= logging.WARNING
