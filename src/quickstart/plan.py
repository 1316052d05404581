"""Which tunes go where: the splits, and a plan for every song of the quick-start set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import mixes, singers, songs

_CHUNK = 12
"""Files parsed together."""


@dataclass(frozen=True)
class SplitPlan:
    """What one split holds."""

    name: str
    chorales: int
    folk: int
    """Number of songs of each kind; the training split ignores both and fills up minutes."""
    max_seconds: float
    tempo: tuple[float, float]
    mixing: mixes.Mixing
    engines: tuple[str, ...]
    singers: str
    """Prefix of the singers' names: two splits with one prefix share singers."""
    singer_count: int
    rests: float
    """Probability that passages of the melody are left out."""


_TRAIN = SplitPlan(
    "train", 0, 0, 60.0, (70.0, 125.0), mixes.TRAINING, singers.TRAINING_ENGINES, "training", 96, 0.4
)
_EVALUATION = (
    replace(
        _TRAIN,
        name="test_hard",
        chorales=11,
        folk=3,
        max_seconds=42.0,
        tempo=(66.0, 118.0),
        mixing=mixes.HARD,
        engines=(singers.HELD_OUT_ENGINE,),
        singers="hard",
        singer_count=8,
        rests=0.0,
    ),
    replace(
        _TRAIN,
        name="test_standard",
        chorales=11,
        folk=3,
        max_seconds=42.0,
        tempo=(66.0, 118.0),
        mixing=mixes.STANDARD,
        singers="test",
        singer_count=14,
        rests=0.0,
    ),
    replace(
        _TRAIN, name="validation", chorales=6, folk=2, max_seconds=40.0, mixing=mixes.STANDARD, rests=0.0
    ),
    replace(
        _TRAIN, name="validation_hard", chorales=5, folk=1, max_seconds=40.0, mixing=mixes.HARD, rests=0.0
    ),
)
SPLIT_ORDER = ("train", "validation", "validation_hard", "test_standard", "test_hard")
_SMALL_SECONDS = 13.0
_SMALL_TRAIN = 3


@dataclass(frozen=True)
class SongPlan:
    """All a worker needs to render one song."""

    seed: int
    split: SplitPlan
    song_id: str
    singer: singers.Singer
    performance: songs.Performance


Mapper = Callable[[Callable[[str], songs.Tune | None], Sequence[str]], Iterator[songs.Tune | None]]


def _usable(sources: list[str], mapper: Mapper) -> Iterator[songs.Tune]:
    """Tunes of the files that can be used, in order, parsed a few at a time."""
    for begin in range(0, len(sources), _CHUNK):
        for tune in mapper(songs.load_tune, sources[begin : begin + _CHUNK]):
            if tune is not None:
                yield tune


class Planner:
    """Deals out tunes: first the evaluation splits take tunes of their own, training gets the rest."""

    def __init__(self, seed: int, small: bool, mapper: Mapper) -> None:
        chorales, folk = songs.list_sources(seed)
        self.seed = seed
        self.small = small
        self.streams = {"chorale": _usable(chorales, mapper), "folk": _usable(folk, mapper)}
        self.held_out: list[songs.Tune] = []
        self.names: set[str] = set()

    def _plan(self, split: SplitPlan, number: int, tune: songs.Tune, suffix: str = "") -> SongPlan:
        stem = Path(tune.source).stem.replace(" ", "")
        song_id = f"{split.name}-{stem}{suffix}"
        singer = singers.make_singer(self.seed, split.singers, number % split.singer_count, split.engines)
        rng = songs.generator(self.seed, song_id, "performance")
        low, high = singer.range
        limit = _SMALL_SECONDS if self.small else split.max_seconds
        rests = rng.random() < split.rests
        performance = songs.perform(tune, low, high, rng, limit, split.tempo, rests)
        return SongPlan(self.seed, split, song_id, singer, performance)

    def evaluation(self) -> list[SongPlan]:
        """Plans of all evaluation splits, each song with a tune of its own."""
        plans: list[SongPlan] = []
        for split in _EVALUATION:
            chorales, folk = (1, 0) if self.small else (split.chorales, split.folk)
            kinds = ["chorale"] * chorales + ["folk"] * folk
            for number, kind in enumerate(kinds):
                tune = next(
                    tune
                    for tune in self.streams[kind]
                    if not any(songs.same_tune(tune, other) for other in self.held_out)
                )
                self.held_out.append(tune)
                plans.append(self._plan(split, number, tune))
        return plans

    def training(self, minutes: float) -> list[SongPlan]:
        """Plans of the training split: two chorales to one folk tune until there is enough sound."""
        plans: list[SongPlan] = []
        seconds, round_number = 0.0, 0
        pool: list[songs.Tune] = []
        replay = False
        while (len(plans) < _SMALL_TRAIN) if self.small else (seconds < 60 * minutes):
            kind = "folk" if round_number % 3 == 2 and not self.small else "chorale"
            round_number += 1
            tune = None if replay else self._next_training(kind)
            if tune is None:
                if not pool:
                    raise ValueError("the music21 corpus holds no usable tune for training")
                replay = True  # the corpus is used up: the same tunes again, performed otherwise
                tune = pool[len(plans) % len(pool)]
            else:
                pool.append(tune)
            turn = len(plans) // len(pool) if replay else 0
            plans.append(self._plan(_TRAIN, len(plans), tune, f"-{turn}" if turn else ""))
            seconds += plans[-1].performance.seconds
        return plans

    def _next_training(self, kind: str) -> songs.Tune | None:
        for tune in self.streams[kind]:
            if not any(songs.same_tune(tune, other) for other in self.held_out):
                return tune
        return None
