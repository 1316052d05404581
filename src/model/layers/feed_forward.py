"""Feed-forward layers: two linear layers, and gated forms.

Axes: D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .activations import get_activation
from .dropout import dropout


class MLP(nn.Module):
    """Linear, activation, linear, with biases: the feed-forward of Perceiver-TF."""

    def __init__(self, width: int, widening: int, activation: str) -> None:
        super().__init__()
        self.dense1 = nn.Linear(width, width * widening)
        self.dense2 = nn.Linear(width * widening, width)
        self.activation = get_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        out: Tensor = self.dense2(self.activation(self.dense1(x)))
        return out


class GatedMLP(nn.Module):
    """``drop(w2(drop(act(w1 x) · gate x)))`` without biases: ``gmlp`` of Perceiver-TF (Shazeer 2020, "GLU
    Variants Improve Transformer")."""

    def __init__(self, width: int, widening: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, width * widening, bias=False)
        self.gate = nn.Linear(width, width * widening, bias=False)
        self.w2 = nn.Linear(width * widening, width, bias=False)
        self.activation = get_activation(activation)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        hidden = self.activation(self.w1(x)) * self.gate(x)
        out = self.w2(dropout(hidden, self.dropout, self.training))
        return dropout(out, self.dropout, self.training)


class T5GatedMLP(nn.Module):
    """``wo(drop(gelu_new(wi_0 x) · wi_1 x))`` without biases (Raffel et al. 2020, v1.1)."""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.wi_0 = nn.Linear(width, inner, bias=False)
        self.wi_1 = nn.Linear(width, inner, bias=False)
        self.wo = nn.Linear(inner, width, bias=False)
        self.dropout = dropout
        nn.init.normal_(self.wi_0.weight, std=width**-0.5)
        nn.init.normal_(self.wi_1.weight, std=width**-0.5)
        nn.init.normal_(self.wo.weight, std=inner**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        activated, gate = F.gelu(self.wi_0(x), approximate="tanh"), self.wi_1(x)
        if activated.dtype != torch.float16:
            out: Tensor = self.wo(dropout(activated * gate, self.dropout, self.training))
            return out
        # float16 ends at 65504, which T5's products and sums exceed: the second half runs in float32.
        hidden = dropout(activated.float() * gate.float(), self.dropout, self.training)
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(hidden, self.wo.weight.float())
