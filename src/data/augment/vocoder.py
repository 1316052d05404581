"""Pitch shift of a batch where the model runs: resampled, then stretched back by a phase vocoder.

Time is kept, as by :mod:`.stretch`, and each row has a shift of its own. Phases go on from those of the sound
(Flanagan and Golden 1966; Dolson 1986) and start anew where energy rises, so that notes begin where they did
(after Roebel 2003).

Axes: B batch, S samples, T frames, F bins.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FRAME = 1024
HOP = 128
_HALF_TAPS = 16
"""Zero crossings of the interpolating sinc on each side."""
_RISE = 2.0
"""Growth of a frame's energy that starts all phases anew."""


def shift_pitch(audio: Tensor, speeds: Tensor) -> Tensor:
    """Sound with its frequencies multiplied, of the same length, level and timing.

    Args:
        audio: (B, S) float32.
        speeds: (B,) factor of the frequencies of each row, 0.25 to 4; rows of factor 1 come back as they are.

    Returns:
        (B, S) float32. A pure function of its arguments.
    """
    size = audio.shape[-1]
    active = torch.nonzero(speeds != 1.0).flatten()
    if not len(active) or not size:
        return audio.clone()
    chosen, factors = audio[active].float(), speeds[active].float()
    stretched = _stretch(_resample(chosen, factors), factors, size)
    before, after = chosen.square().mean(-1, keepdim=True), stretched.square().mean(-1, keepdim=True)
    stretched *= torch.sqrt(before / after.clamp_min(1e-12)).clamp(0.5, 2.0)
    return audio.index_copy(0, active, stretched.to(audio.dtype))


def _resample(audio: Tensor, speeds: Tensor) -> Tensor:
    """(B, S) played ``speeds`` times as fast: (B, ceil(S / slowest)), zeros after the end of each row."""
    size = audio.shape[-1]
    length = math.ceil(size / float(speeds.min()))
    pad = math.ceil(_HALF_TAPS * max(1.0, float(speeds.max()))) + 1
    padded = torch.nn.functional.pad(audio, (pad, pad + math.ceil(length * float(speeds.max())) - size + pad))
    at = torch.arange(length, device=audio.device, dtype=torch.float64) * speeds.double()[:, None]
    base = at.floor().long()
    place = (at - base).float()
    cutoff = torch.clamp(1.0 / speeds, max=1.0)[:, None] * 0.98
    out = torch.zeros_like(place)
    for tap in range(-pad + 1, pad + 1):
        distance = place - tap
        window = torch.cos(0.5 * math.pi * (distance * cutoff / _HALF_TAPS).clamp(-1.0, 1.0)).square()
        out += cutoff * torch.sinc(cutoff * distance) * window * padded.gather(1, base + tap + pad)
    return out * (base < size)


def _stretch(audio: Tensor, factors: Tensor, size: int) -> Tensor:
    """(B, L) made ``factors`` times as long: (B, size)."""
    window = torch.hann_window(FRAME, device=audio.device)
    audio = torch.nn.functional.pad(audio, (0, FRAME))
    spectrum = torch.stft(audio, FRAME, HOP, window=window, pad_mode="constant", return_complex=True)
    spectrum = torch.nn.functional.pad(spectrum.transpose(1, 2), (0, 0, 0, 2))  # (B, T, F)
    frames = size // HOP + 1
    at = torch.arange(frames, device=audio.device, dtype=torch.float64) / factors.double()[:, None]
    at = at.clamp_max(spectrum.shape[1] - 2)
    first = at.floor().long()
    place = (at - first).float()[..., None]
    near = _rows(spectrum, first)
    following = _rows(spectrum, first + 1)
    level = torch.lerp(near.abs(), following.abs(), place)
    bins = torch.arange(FRAME // 2 + 1, device=audio.device)
    turn = (2 * math.pi * HOP / FRAME) * (bins % (FRAME // HOP))  # of a bin in a hop, but for whole turns
    drift = following.angle() - near.angle() - turn
    advance = turn + drift - 2 * math.pi * torch.round(drift / (2 * math.pi))
    total = torch.cumsum(advance.double(), dim=1)
    total = torch.cat((torch.zeros_like(total[:, :1]), total[:, :-1]), dim=1)
    start = _starts(near)
    phase = _rows(near.angle().double() - total, start) + total
    turned = torch.polar(level, torch.remainder(phase, 2 * math.pi).float())
    return torch.istft(turned.transpose(1, 2), FRAME, HOP, window=window, length=size)


def _rows(values: Tensor, frames: Tensor) -> Tensor:
    """(B, T, F) and (B, K) frame numbers to (B, K, F)."""
    return values.gather(1, frames[..., None].expand(-1, -1, values.shape[-1]))


def _starts(spectrum: Tensor) -> Tensor:
    """(B, T) for each frame the frame whose phases it goes on from: the first, or the last rise of energy."""
    energy = spectrum.abs().square().sum(-1)
    before = torch.nn.functional.pad(energy, (1, 0))[:, :-1]
    rises = energy > _RISE * before + 1e-6
    count = torch.arange(energy.shape[1], device=energy.device).expand_as(energy)
    marks = torch.where(rises, count, torch.zeros_like(count))
    return torch.cummax(marks, dim=1).values
