"""How far each parameter is from the output, for learning rates that fall from layer to layer."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LAYER = re.compile(r"^(encoder|decoder)\.(?:[a-z_]+\.)*?(?:layers|blocks)\.(\d+)\.")
_HEADS = ("frame_head.", "decoder.final_norm.", "decoder.lm_head.")
_INPUTS = ("pre_encoder.", "frontend.")


def layer_depths(names: Iterable[str]) -> dict[str, int]:
    """Layers between each parameter and the output.

    0 are the output matrices and the norm before them, 1 is the decoder's last layer, and so on down the
    decoder, the encoder and the front convolution. What a stack reads besides its input (token embeddings,
    positions, latents) stands one below its first layer; the projection between the stacks stands with the
    decoder's embeddings.
    """
    names = list(names)
    layers = {name: (match[1], int(match[2])) for name in names if (match := _LAYER.match(name))}
    counts = {
        part: max((number + 1 for stack, number in layers.values() if stack == part), default=0)
        for part in ("encoder", "decoder")
    }
    below_decoder = counts["decoder"] + 1
    below_encoder = below_decoder + counts["encoder"]

    def depth(name: str) -> int:
        if name in layers:
            part, number = layers[name]
            top = 0 if part == "decoder" else below_decoder - 1
            return top + counts[part] - number
        if name.startswith(_HEADS):
            return 0
        if name.startswith(_INPUTS):
            return below_encoder + 1
        return below_encoder if name.startswith("encoder.") else below_decoder

    return {name: depth(name) for name in names}


def layer_scales(names: Iterable[str], decay: float) -> dict[str, float]:
    """Factor on the learning rate of each parameter: ``decay`` to the power of its depth.

    Layer-wise decay as in Howard and Ruder 2018, "Universal Language Model Fine-tuning for Text
    Classification", section 3.2 (discriminative fine-tuning).
    """
    return {name: decay**depth for name, depth in layer_depths(names).items()}
