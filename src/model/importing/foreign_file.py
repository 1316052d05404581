"""Reading a checkpoint that pickled classes of its own, without running anything of it.

``torch.load`` with an unpickler that knows tensors and containers; every other class or function in the file
becomes an inert :class:`ForeignObject` that remembers its name and plain attributes.
"""

from __future__ import annotations

import pickle
import types
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor

from ..checkpoint_file import unwrapped_name
from ..checkpoint_header import InertObject, PlainOrderedDict, diagnose_file

DROPPED_PREFIXES = ("pitchshift.",)
"""Weights that no model of ours has and that hold nothing learnt: kernels of the pitch shifter."""


class ForeignObject(InertObject):
    """Stands for an object of an unknown class; calling it does nothing."""

    foreign_name = ""
    """Module and name of the class in the file."""
    attributes: dict[str, Any]
    """What the file says the object's attributes, or the entries of a dictionary of its own kind, are."""

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        instance = super().__new__(cls)
        instance.__dict__["attributes"] = {}
        return instance

    def __setstate__(self, state: object) -> None:
        parts = state if isinstance(state, tuple) else (state,)
        for part in parts:
            if isinstance(part, dict):
                self.attributes.update((key, value) for key, value in part.items() if isinstance(key, str))

    def __call__(self, *args: object, **kwargs: object) -> ForeignObject:
        return ForeignObject()

    def __setitem__(self, key: object, value: object) -> None:
        if isinstance(key, str):
            self.attributes[key] = value


class _DefaultDict(dict[Any, Any]):
    """A default dictionary without its factory."""

    def __new__(cls, *args: object) -> _DefaultDict:
        return super().__new__(cls)

    def __init__(self, *args: object) -> None:
        super().__init__()


def _rebuild_parameter(data: object, requires_grad: object, hooks: object) -> object:
    """A parameter of the file as the tensor it holds."""
    return data


def _rebuild_parameter_with_state(
    data: object, requires_grad: object, hooks: object, state: object
) -> object:
    return data


def _known() -> dict[tuple[str, str], Any]:
    """What may be made from a file, by module and name: tensors, their types, and containers."""
    rebuild = cast(Any, torch._utils)
    known: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): PlainOrderedDict,
        ("collections", "defaultdict"): _DefaultDict,
        ("builtins", "set"): set,
        ("builtins", "frozenset"): frozenset,
        ("torch", "Size"): torch.Size,
        ("torch", "device"): torch.device,
        ("torch._utils", "_rebuild_tensor_v2"): rebuild._rebuild_tensor_v2,
        ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter_with_state,
    }
    for name, value in vars(torch).items():
        if isinstance(value, torch.dtype):
            known[("torch", name)] = value
    return known


class _ForeignUnpickler(pickle.Unpickler):
    """Finds only what :func:`_known` lists, by exact name; the rest becomes a fresh inert class."""

    table = _known()

    def find_class(self, module: str, name: str) -> Any:
        found = self.table.get((module, name))
        if found is not None:
            return found
        return type("Foreign", (ForeignObject,), {"foreign_name": f"{module}.{name}"})


_PICKLE = types.SimpleNamespace(
    __name__="foreign_pickle", Unpickler=_ForeignUnpickler, UnpicklingError=pickle.UnpicklingError
)


@dataclass(frozen=True)
class ForeignCheckpoint:
    """A checkpoint of another system: its weights and what it says of itself."""

    path: Path
    weights: Mapping[str, Tensor]
    """By the file's own names, without what DDP or torch.compile put around them."""
    dropped: tuple[str, ...] = ()
    """Names of tensors that were left out because they hold nothing learnt."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """``hyper_parameters``: configuration dictionaries and :class:`ForeignObject`."""
    step: int | None = None
    epoch: int | None = None

    def setting(self, *names: str) -> Any:
        """The value at that path of dictionaries and attributes, or None."""
        value: Any = self.settings
        for name in names:
            if isinstance(value, ForeignObject):
                value = value.attributes
            if not isinstance(value, Mapping):
                return None
            value = value.get(name)
        return value.attributes if isinstance(value, ForeignObject) else value


def read_foreign(path: Path) -> ForeignCheckpoint:
    """Read a Lightning file, or a file that holds a state dict alone; nothing of it is executed.

    Raises:
        ValueError: one sentence that names the file and what is wrong with it.
    """
    loaded = _load(path)
    if "amt_format" in loaded:
        raise ValueError(f"{path} is a checkpoint of amt already, there is nothing to convert")
    state = loaded.get("state_dict", loaded)
    if not isinstance(state, Mapping) or not any(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"{path} has no weights (no state_dict); it holds {', '.join(map(str, loaded))[:200]}"
        )
    odd = [str(name) for name, value in state.items() if not isinstance(value, Tensor)]
    if odd:
        raise ValueError(
            f"{path}: {len(odd)} entries of its state_dict are no tensors ({', '.join(odd[:3])})"
        )
    weights = {unwrapped_name(str(name)): value for name, value in state.items()}
    dropped = tuple(name for name in weights if name.startswith(DROPPED_PREFIXES))
    settings = loaded.get("hyper_parameters")
    step, epoch = loaded.get("global_step"), loaded.get("epoch")
    return ForeignCheckpoint(
        path,
        {name: value for name, value in weights.items() if name not in dropped},
        dropped,
        settings if isinstance(settings, Mapping) else {},
        step if isinstance(step, int) else None,
        epoch if isinstance(epoch, int) else None,
    )


def _load(path: Path) -> Mapping[str, Any]:
    problem = diagnose_file(path)
    if problem is not None:
        raise ValueError(f"{path} {problem}")
    with zipfile.ZipFile(path) as archive:
        if any(name.endswith("/constants.pkl") for name in archive.namelist()):
            raise ValueError(f"{path} is a TorchScript program, not a checkpoint; it is not opened")
    try:
        loaded = torch.load(
            str(path), map_location="cpu", pickle_module=_PICKLE, weights_only=False, mmap=True
        )
    except Exception as error:  # a pickle that is broken or not one of torch's can lead to any
        detail = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is damaged and cannot be read ({detail})") from error
    if not isinstance(loaded, Mapping):
        raise ValueError(f"{path} holds a {type(loaded).__name__}, not a checkpoint's dictionary")
    return loaded
