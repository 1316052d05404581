"""``--compile``: encoder and decoder of training as compiled functions.

The encoder sees one shape. Labels come in buckets of lengths, so the decoder is compiled once for any length;
otherwise each bucket would compile it anew.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..model import Encoded, Transcriber

Encode = Callable[[Tensor], Encoded]
Decode = Callable[[Encoded, Tensor], Tensor]


def compiled_passes(model: Transcriber) -> tuple[Encode, Decode]:
    """``encode`` and ``decode_logits`` of ``model``, compiled when they are first called.

    Validation and decoding go on using the plain ones, so that they do not compile for their own shapes.
    """
    encode: Encode = torch.compile(model.encode, dynamic=False)
    decode = torch.compile(model.decode_logits)

    def decode_any_length(encoded: Encoded, labels: Tensor) -> Tensor:
        torch._dynamo.maybe_mark_dynamic(labels, labels.dim() - 1)
        return decode(encoded, labels)

    return encode, decode_any_length
