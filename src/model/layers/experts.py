"""Mixture of experts: each token goes to the few feed-forwards that its router likes best.

Axes: N tokens, D width, E experts, F hidden width, R rows (one for each token and chosen expert, by expert).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .activations import Activation, get_activation

GROUP_ALIGNMENT = 8
"""On a GPU each expert's rows are filled up to a multiple of this, and widths must be one: its grouped
product reads 16 bytes at once."""


class MixtureOfExperts(nn.Module):
    """Sum of the best ``topk`` of ``num_experts`` gated feed-forwards, weighted by their softmax among
    themselves (Jiang et al. 2024, "Mixtral of Experts"). No expert has a limit of tokens.

    Tokens are sorted by expert, so that an expert is one matrix product over its rows. The numbers of rows
    stay on a GPU, which in bf16 is never waited for.
    """

    def __init__(self, width: int, widening: int, activation: str, num_experts: int, topk: int) -> None:
        super().__init__()
        self.num_experts = num_experts
        self.topk = topk
        self.gate = nn.Linear(width, num_experts, bias=False)
        """The router."""
        self.experts = Experts(width, width * widening, activation, num_experts)
        self.odd_sizes = width % GROUP_ALIGNMENT > 0

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """(…, D) → (…, D), and in training :func:`balance_loss`, otherwise None."""
        tokens = x.flatten(0, -2)
        probs = self.gate(tokens).float().softmax(-1)
        weights, chosen = probs.topk(self.topk, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        plan = plan_rows(chosen, self.num_experts, by_size=self.odd_sizes or _is_on_cpu(x))
        y = self.experts(plan.gather(tokens), plan).index_select(0, plan.row_of)
        out = torch.bmm(weights[:, None], y.view(*chosen.shape, x.shape[-1]))[:, 0]
        return out.view_as(x), balance_loss(probs, chosen) if self.training else None


class Experts(nn.Module):
    """``w2(act(w1 x) · gate x)`` of every expert, each matrix one tensor for all."""

    def __init__(self, width: int, hidden: int, activation: str, num_experts: int) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(num_experts, hidden, width))
        self.gate = nn.Parameter(torch.empty(num_experts, hidden, width))
        self.w2 = nn.Parameter(torch.empty(num_experts, width, hidden))
        self.activation = get_activation(activation)
        for weight in self.parameters():
            bound = weight.shape[2] ** -0.5
            nn.init.uniform_(weight, -bound, bound)  # the start of nn.Linear

    def forward(self, rows: Tensor, plan: RowPlan) -> Tensor:
        """(R, D) → (R, D), each row through its expert."""
        device = rows.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
        rows, w1, gate, w2 = (part.to(dtype) for part in (rows, self.w1, self.gate, self.w2))
        if plan.sizes is not None:
            out: Tensor = _ExpertByExpert.apply(rows, w1, gate, w2, plan.sizes, self.activation)  # type: ignore[no-untyped-call]
            return out
        hidden = self.activation(_grouped(rows, w1, plan)) * _grouped(rows, gate, plan)
        return _grouped(hidden, w2, plan)


def balance_loss(probs: Tensor, chosen: Tensor) -> Tensor:
    """``E · Σ_e share of choices · mean probability``: 1 when all experts get the same, up to E / topk when
    the same ones get all (Fedus et al. 2021, "Switch Transformers", section 2.2).

    Args:
        probs: (N, E) router probabilities.
        chosen: (N, topk) numbers of the chosen experts.
    """
    num_experts = probs.shape[1]
    share = F.one_hot(chosen, num_experts).to(probs.dtype).mean((0, 1))
    return num_experts * (share * probs.mean(0)).sum()


class RowPlan(NamedTuple):
    """Where each choice of each token lies among the rows sorted by expert."""

    source: Tensor
    """(R,) token of each row; N for rows that only fill up."""
    row_of: Tensor
    """(N · topk,) row of each choice."""
    ends: Tensor
    """(E,) int32: where each expert's rows end."""
    sizes: list[int] | None
    """Rows of each expert, where they are known outside the tensors."""

    def gather(self, tokens: Tensor) -> Tensor:
        """(N, D) → (R, D)."""
        if self.sizes is None:
            tokens = F.pad(tokens, (0, 0, 0, 1))
        return tokens.index_select(0, self.source)


def _is_on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def plan_rows(chosen: Tensor, num_experts: int, *, by_size: bool) -> RowPlan:
    """Sort the choices (N, topk) by expert: close together and ``by_size``, or each expert's filled up."""
    num_tokens, topk = chosen.shape
    by_expert, order = chosen.flatten().sort(stable=True)
    experts = torch.arange(num_experts, device=chosen.device)
    ends = torch.searchsorted(by_expert, experts, right=True)
    sizes = ends.diff(prepend=ends.new_zeros(1))
    rank = torch.arange(num_tokens * topk, device=chosen.device)
    row_of = torch.empty_like(order)
    if by_size:
        row_of[order] = rank
        return RowPlan(order // topk, row_of, ends.int(), sizes.tolist())
    filled = (sizes + GROUP_ALIGNMENT - 1) // GROUP_ALIGNMENT * GROUP_ALIGNMENT
    filled_ends = filled.cumsum(0)
    row = rank + (filled_ends - filled - ends + sizes)[by_expert]
    row_of[order] = row
    num_rows = -(-num_tokens * topk // GROUP_ALIGNMENT) * GROUP_ALIGNMENT + num_experts * GROUP_ALIGNMENT
    source = torch.full((num_rows,), num_tokens, device=chosen.device)
    source[row] = order // topk
    filled_ends[-1] = num_rows  # what is left over goes to the last expert as zeros
    return RowPlan(source, row_of, filled_ends.int(), None)


def _grouped(rows: Tensor, weight: Tensor, plan: RowPlan) -> Tensor:
    """Rows (R, A) times the matrix of their expert, weight (E, B, A) → (R, B)."""
    return F.grouped_mm(rows, weight.transpose(1, 2), offs=plan.ends)


class _ExpertByExpert(torch.autograd.Function):
    """All experts, one after the other: on a CPU what lies between two products stays in the cache, and only
    the inputs of activation and gate are kept."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        w1: Tensor,
        gate: Tensor,
        w2: Tensor,
        sizes: list[int],
        activation: Activation,
    ) -> Tensor:
        inner, gates = (rows.new_empty(len(rows), w1.shape[1]) for _ in range(2))
        out = torch.empty_like(rows)
        parts = (torch.split(part, sizes) for part in (rows, inner, gates, out))
        for e, (x, a, g, y) in enumerate(zip(*parts, strict=True)):
            torch.mm(x, w1[e].t(), out=a)
            torch.mm(x, gate[e].t(), out=g)
            torch.mm(activation(a) * g, w2[e].t(), out=y)
        ctx.save_for_backward(rows, w1, gate, w2, inner, gates)
        ctx.sizes, ctx.activation = sizes, activation
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, w1, gate, w2, inner, gates = ctx.saved_tensors
        grads = [torch.empty_like(part) for part in (rows, w1, gate, w2)]
        grad_rows, grad_w1, grad_gate, grad_w2 = grads
        parts = (torch.split(part, ctx.sizes) for part in (rows, inner, gates, grad, grad_rows))
        for e, (x, a, g, gy, gx) in enumerate(zip(*parts, strict=True)):
            with torch.enable_grad():
                leaf = a.detach().requires_grad_()
                activated = ctx.activation(leaf)
            torch.mm(gy.t(), activated.detach() * g, out=grad_w2[e])
            grad_hidden = gy @ w2[e]
            grad_g = grad_hidden * activated.detach()
            (grad_a,) = torch.autograd.grad(activated, leaf, grad_hidden.mul_(g))
            torch.mm(grad_a.t(), x, out=grad_w1[e])
            torch.mm(grad_g.t(), x, out=grad_gate[e])
            torch.mm(grad_a, w1[e], out=gx).addmm_(grad_g, gate[e])
        return *grads, None, None
