"""What a device can do and what a step asks of it: times, rates of products and of memory, bytes moved, bytes
held."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(run: Callable[[], object], device: torch.device, times: int, warm_up: int = 1) -> float:
    """Median wall time of a call."""
    for _ in range(warm_up):
        run()
    taken = []
    for _ in range(times):
        synchronize(device)
        start = time.perf_counter()
        run()
        synchronize(device)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def matrix_rate(device: torch.device, dtype: torch.dtype, size: int) -> float:
    """Floating-point operations per second of a large product."""
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: a @ b, device, times=10)


def memory_rate(device: torch.device, size: int) -> float:
    """Bytes per second of a large copy, read and written ones."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_of(lambda: target.copy_(source), device, times=10)


class BytesMoved(TorchDispatchMode):
    """Counts the bytes of inputs and outputs of every operation that is no view: what its kernels read and
    write at least, when nothing stays in a cache from one to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        given = [item for item in tree_leaves((args, kwargs)) if isinstance(item, Tensor)]
        made = [item for item in tree_leaves(out) if isinstance(item, Tensor)]
        places = {item.untyped_storage()._cdata for item in given}
        in_place = func._schema.is_mutable
        if not in_place and made and all(item.untyped_storage()._cdata in places for item in made):
            return out  # a view
        self.total += sum(item.numel() * item.element_size() for item in (*given, *made))
        return out


def peak_bytes_of(run: Callable[[], object], device: torch.device) -> int:
    """The most that is allocated on a GPU during a call; on a CPU, which does not say, what autograd keeps of
    it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device))
    storages: dict[int, int] = {}
    alive: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        alive.append(tensor)  # a place that is free again would be counted once for two
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run()
    return sum(storages.values())


@contextmanager
def exact_products() -> Iterator[None]:
    """Products in float32, not TF32."""
    before = torch.get_float32_matmul_precision()
    convolutions = torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = convolutions
