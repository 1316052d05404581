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
    ("-tps", "--test-pitch-shift"): "it shifted test songs to try out the augmentation, which has tests",
}
_OF_TEST = {
    ("-epv", "--eval-program-vocab"): "--eval-program-vocab NAME",
    ("-edv", "--eval-drum-vocab"): "--eval-drum-vocab NAME",
    ("-t", "--onset-tolerance"): "--onset-tolerance SECONDS",
    ("-os", "--test-octave-shift"): "--octave-shift",
}
UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        name: f"{name} ({'/'.join(names)} of YourMT3) means nothing here: {reason}. Leave it out"
        for names, reason in _DEAD.items()
        for name in names
    }
    | {
        name: f"{name} ({'/'.join(names)} of YourMT3) is about scoring: use test.py {here}"
        for names, here in _OF_TEST.items()
        for name in names
    }
)
"""Published names that are answered with a sentence of their own."""
