"""Four ways to make a singing voice from control curves; three train, one is held out for the hard test.

- ``cascade``: a sum of harmonics weighted by a chain of resonances (source-filter, additive form).
- ``pulse``: glottal pulses with period-wise shimmer through time-varying two-pole filters in a chain.
- ``bumps``: a sum of harmonics weighted by bell curves at free places (vowels of no language).
- ``grains`` (held out): every glottal period starts five damped sinusoids (FOF: Rodet, Potard and
  Barriere, "The CHANT project", Computer Music Journal 8(3), 1984).
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import uniform_filter1d
from scipy.signal import lfilter, resample_poly, sosfilt

from .singers import HELD_OUT_ENGINE, HOP, SAMPLE_RATE, Singer, VoicePlan
from .songs import Floats

_TOP = 7600.0
_OPEN_GLOTTIS = 0.2
"""Hz of first-formant bandwidth per Hz of pitch: the open glottis damps, the more the higher the voice."""
_BLOCK = 400
"""Frames of a block of the harmonic sum (fits in the cache)."""


def _per_sample(curve: Floats, samples: int) -> Floats:
    """A curve per frame, linearly interpolated to samples."""
    return np.asarray(np.interp(np.arange(samples) / HOP, np.arange(len(curve)), curve), dtype=np.float64)


def _phase(f0: Floats, samples: int) -> Floats:
    """Turns of the glottal cycle at each sample."""
    return np.asarray(np.cumsum(_per_sample(f0, samples)) / SAMPLE_RATE, dtype=np.float64)


def _sum_harmonics(phase: Floats, amplitudes: Floats) -> Floats:
    """Sum over k of amplitude[frame, k] sin(2 pi (k+1) phase), amplitudes interpolated between frames."""
    samples = len(phase)
    frames = samples // HOP
    out = np.zeros(samples)
    ramp = np.arange(HOP) / HOP
    for begin in range(0, frames, _BLOCK):
        end = min(begin + _BLOCK, frames)
        span = slice(begin * HOP, end * HOP)
        angle = 2 * np.pi * np.mod(phase[span], 1.0).reshape(end - begin, HOP)
        twice_cos = 2 * np.cos(angle)
        before, current = np.zeros_like(angle), np.sin(angle)
        total = np.zeros_like(angle)
        highest = int(np.max(np.flatnonzero(amplitudes[begin : end + 1].any(axis=0)), initial=-1)) + 1
        for k in range(highest):
            here = amplitudes[begin:end, k, None]
            total += current * (here + (amplitudes[begin + 1 : end + 1, k, None] - here) * ramp)
            before, current = current, twice_cos * current - before
        out[span] = total.reshape(-1)
    return out


def _harmonics(plan: VoicePlan) -> Floats:
    """(frames, harmonics) frequencies in Hz."""
    count = int(_TOP / plan.f0.min()) + 1
    return plan.f0[:, None] * np.arange(1, count + 1)


def _fade_top(frequencies: Floats) -> Floats:
    return np.clip((_TOP - frequencies) / 600.0, 0.0, 1.0)


def _lift_lowest(amplitudes: Floats, rng: np.random.Generator) -> None:
    """Keep the three lowest harmonics within some dB of the strongest, as they are in sung vowels: few voices
    have a fundamental as weak as the least of these."""
    strongest = amplitudes.max(axis=1)
    for harmonic in range(3):
        least = strongest * 10 ** (rng.uniform(-26.0, -2.0) / 20)
        amplitudes[:, harmonic] = np.maximum(amplitudes[:, harmonic], least)


def _cascade(plan: VoicePlan, singer: Singer, samples: int, rng: np.random.Generator) -> Floats:
    frequencies = _harmonics(plan)
    amplitudes = (frequencies / 200.0) ** (-singer.tilt / 6.02)
    for i, width in enumerate(singer.bandwidths):
        centre = plan.formants[:, i, None]
        ratio = frequencies / centre
        damping = width + (_OPEN_GLOTTIS * plan.f0[:, None] if i == 0 else 0.0)
        amplitudes /= np.sqrt((1 - ratio * ratio) ** 2 + (ratio * damping / centre) ** 2)
        # half of the fall above the centre is made good, as the resonances of a tube do together
        amplitudes *= (1 + ratio**4) ** 0.25
    amplitudes[:, 1::2] *= 10 ** (rng.uniform(-6.0, 3.0) / 20)
    _lift_lowest(amplitudes, rng)
    return _sum_harmonics(_phase(plan.f0, samples), amplitudes * _fade_top(frequencies))


def _bumps(plan: VoicePlan, singer: Singer, samples: int, rng: np.random.Generator) -> Floats:
    frequencies = _harmonics(plan)
    octaves = np.log2(frequencies)
    amplitudes = np.full_like(frequencies, 10 ** (rng.uniform(-34.0, -20.0) / 20))
    for i in range(5):
        width = rng.uniform(0.25, 0.6)
        distance = (octaves - np.log2(plan.formants[:, i, None])) / width
        amplitudes += 10 ** (singer.gains_db[i] / 20) * np.exp(-0.5 * distance * distance)
    amplitudes *= (frequencies / 400.0) ** (-rng.uniform(0.0, 5.0) / 6.02)
    _lift_lowest(amplitudes, rng)
    return _sum_harmonics(_phase(plan.f0, samples), amplitudes * _fade_top(frequencies))


def _pulse(plan: VoicePlan, singer: Singer, samples: int, rng: np.random.Generator) -> Floats:
    over = 4
    phase = np.interp(np.arange(samples * over) / over, np.arange(samples), _phase(plan.f0, samples))
    cycle = np.mod(phase, 1.0)
    shimmer = 1 + rng.uniform(0.0, 0.08) * np.clip(rng.normal(size=int(phase[-1]) + 2), -3, 3)
    opening = singer.open_quotient * rng.uniform(0.6, 0.75)
    closing = singer.open_quotient - opening
    rise, fall = cycle / opening, (cycle - opening) / closing
    if rng.random() < 0.5:  # Rosenberg's trigonometric pulse, else a polynomial one
        flow = np.where(rise < 1, 0.5 - 0.5 * np.cos(np.pi * rise), np.cos(0.5 * np.pi * np.minimum(fall, 1)))
    else:
        flow = np.where(rise < 1, rise * rise * (3 - 2 * rise), 1 - np.minimum(fall, 1) ** 2)
    flow = np.where(cycle < singer.open_quotient, flow, 0.0) * shimmer[phase.astype(np.int64)]
    source = resample_poly(np.diff(flow, prepend=0.0) * over, 1, over)[:samples]
    pole = np.exp(-2 * np.pi * rng.uniform(900.0, 5000.0) / SAMPLE_RATE)
    source = lfilter([1 - pole], [1, -pole], source)
    out = np.empty(samples)
    state = np.zeros((5, 2))
    stride = 2 * HOP
    for begin in range(0, samples, stride):
        frame = min(begin // HOP + 1, len(plan.formants) - 1)
        centres, widths = plan.formants[frame], np.array(singer.bandwidths)
        widths[0] += _OPEN_GLOTTIS * plan.f0[frame]
        radius = np.exp(-np.pi * widths / SAMPLE_RATE)
        first, second = -2 * radius * np.cos(2 * np.pi * centres / SAMPLE_RATE), radius * radius
        zeros = np.zeros(5)
        sections = np.stack([1 + first + second, zeros, zeros, np.ones(5), first, second], axis=1)
        out[begin : begin + stride], state = sosfilt(sections, source[begin : begin + stride], zi=state)
    return out


def _grains(plan: VoicePlan, singer: Singer, samples: int, rng: np.random.Generator) -> Floats:
    phase = _phase(plan.f0, samples)
    turns = np.arange(1, int(phase[-1]))
    times = np.interp(turns, phase, np.arange(samples))
    cycle = SAMPLE_RATE / np.interp(times / HOP, np.arange(len(plan.f0)), plan.f0)
    times = times + rng.normal(0.0, 0.004, len(times)) * cycle
    times = np.maximum(times, 0.0)
    size = 360
    out = np.zeros(samples + size + 2)
    tilt = singer.tilt - 8.0
    gains = 10 ** ((np.array(singer.gains_db) - tilt * np.array((0.0, 0.6, 1.2, 1.5, 1.8))) / 20)
    skirt = rng.uniform(0.0015, 0.004)
    widths = np.array(singer.bandwidths) * rng.uniform(0.8, 1.25, 5)
    for begin in range(0, len(times), 256):
        batch = times[begin : begin + 256]
        starts = np.ceil(batch).astype(np.int64)
        t = (np.arange(size) + (starts - batch)[:, None]) / SAMPLE_RATE
        frame = np.minimum(starts // HOP, len(plan.formants) - 1)
        grain = np.zeros_like(t)
        for i in range(5):
            centre = plan.formants[frame, i, None]
            width = widths[i] + (_OPEN_GLOTTIS * plan.f0[frame, None] if i == 0 else 0.0)
            decay = np.exp(-np.pi * width * t)
            grain += gains[i] * decay * np.sin(2 * np.pi * centre * t)
        grain *= 0.5 - 0.5 * np.cos(np.pi * np.minimum(t / skirt, 1.0))
        grain *= np.minimum((size - np.arange(size)) / 60.0, 1.0)
        for start, values in zip(starts.tolist(), grain, strict=True):
            out[start : start + size] += values
    return out[:samples]


_ENGINES = {"cascade": _cascade, "pulse": _pulse, "bumps": _bumps, "grains": _grains}


def _noise_band(
    samples: int, centre: float, width: float, rng: np.random.Generator, resonator: bool
) -> Floats:
    """Unit-RMS noise around a frequency."""
    noise = rng.normal(size=samples)
    if resonator:
        radius = np.exp(-np.pi * centre * width * 0.7 / SAMPLE_RATE)
        a = [1.0, -2 * radius * np.cos(2 * np.pi * centre / SAMPLE_RATE), radius * radius]
        noise = lfilter([1.0, -0.6], a, noise)
    else:
        size = 1 << max(6, int(samples - 1).bit_length())
        spectrum = np.fft.rfft(noise, size)
        octaves = np.log2(np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 20.0) / centre)
        noise = np.fft.irfft(spectrum * np.exp(-0.5 * (octaves / width) ** 2), size)[:samples]
    return np.asarray(noise / (np.sqrt(np.mean(noise * noise)) + 1e-9), dtype=np.float64)


def sing(plan: VoicePlan, singer: Singer, rng: np.random.Generator) -> Floats:
    """The voice as samples; RMS about 0.1 over a loud note.

    The voiced part is exactly zero outside the plan's envelope; consonant noise lies around it.
    """
    samples = len(plan.envelope)
    held_out = singer.engine == HELD_OUT_ENGINE
    carrier = _ENGINES[singer.engine](plan, singer, samples, rng)
    breath = _noise_band(samples, 2800.0, 1.1, rng, held_out)
    power = uniform_filter1d(uniform_filter1d(carrier * carrier, 961), 961)
    carrier = carrier * (np.abs(power) + 1e-12) ** -0.4
    carrier /= np.sqrt(np.mean(carrier * carrier)) + 1e-12
    pulse = 0.6 + 0.4 * np.cos(2 * np.pi * np.mod(_phase(plan.f0, samples), 1.0))
    carrier += breath * pulse * 10 ** (singer.breath_db / 20)
    voice = carrier * plan.envelope
    for burst in plan.bursts:
        first = max(0, round(burst.start * SAMPLE_RATE))
        count = min(round(burst.seconds * SAMPLE_RATE), samples - first)
        if count < 16:
            continue
        x = (np.arange(count) + 0.5) / count
        shape = np.exp(-3.0 * x) * np.minimum(x * 12, 1.0) if burst.sharp else np.sin(np.pi * x) ** 0.7
        noise = _noise_band(count, burst.centre, burst.width, rng, held_out)
        voice[first : first + count] += 10 ** (burst.level_db / 20) * shape * noise
    return np.asarray(0.1 * voice, dtype=np.float64)
