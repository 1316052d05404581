"""What one CPU thread can do, in CPU seconds, for the benchmarks beside this file."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def matrix_rate() -> float:
    """Floating-point operations per CPU second of a large float32 product."""
    a = torch.randn(1024, 1024)
    return 2 * 1024**3 / statistics.median(cpu_seconds(lambda: a @ a) for _ in range(7))
