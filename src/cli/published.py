"""Options of YourMT3 that this version does not have, each with the sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_DEAD = {
    ("-b", "--base-name"): "the decoder's sizes are set by --d-model, --decoder-layers and their like",
    ("-df", "--d-feat"): "the model works out its feature width itself",
    ("-tenc", "--task-cond-encoder"): "no task token ever reached the encoder",
    ("-tdec", "--task-cond-decoder"): "the task alone says which tokens start a sequence",
    ("-twe", "--tie-word-embedding"): "embedding and output weights are never tied",
    ("-pt", "--pretrained"): "a pretrained T5 is read from a local folder, --pretrained-t5 FOLDER",
    ("-etk", "--eval-subtask-key"): "it named output folders; predict.py --subtask NAME asks for a sub-task",
    ("-debug", "--debug-mode"): "the decoder always counts what it ignores",
}
_LATER = (
    ("-epv", "--eval-program-vocab"),
    ("-edv", "--eval-drum-vocab"),
    ("-t", "--onset-tolerance"),
    ("-os", "--test-octave-shift"),
    ("-tps", "--test-pitch-shift"),
)

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        name: f"{name} ({'/'.join(names)} of YourMT3) means nothing here: {reason}. Leave it out"
        for names, reason in _DEAD.items()
        for name in names
    }
    | {
        name: f"{name} ({'/'.join(names)} of YourMT3) is not part of this version. Leave it out"
        for names in _LATER
        for name in names
    }
)
"""Published names that are answered with a sentence of their own."""
