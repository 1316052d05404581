"""The windows of a song read one after the other, in memory that does not grow with their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .decoding import ChannelDecoder, NoteRow
from .vocabulary import TokenLayout


class SongDecoder:
    """Reads all channels of the windows of a song, in order; end with :meth:`finish`.

    Args:
        layout: of the tokens.
        num_channels: token sequences per window.
        start_from_ties: see :meth:`~.note_tokenizer.NoteTokenizer.decode`.
    """

    def __init__(self, layout: TokenLayout, num_channels: int, start_from_ties: bool = False) -> None:
        self._channels = [ChannelDecoder(layout, start_from_ties) for _ in range(num_channels)]

    def read_window(
        self, rows: Sequence[Sequence[int]], start: float, region: tuple[float, float] | None = None
    ) -> None:
        """One window: its tokens by channel; the rest as in :meth:`~.decoding.ChannelDecoder.read_window`."""
        for decoder, tokens in zip(self._channels, rows, strict=True):
            decoder.read_window(tokens, start, region)

    def finish(self) -> None:
        """End what still sounds."""
        for decoder in self._channels:
            decoder.finish()

    def take_rows(self) -> list[NoteRow]:
        """The notes that ended since the last call, channel by channel, as they were written."""
        rows: list[NoteRow] = []
        for decoder in self._channels:
            rows += decoder.notes
            decoder.notes = []
        return rows

    def sounding(self) -> dict[tuple[int, int], float]:
        """Program and pitch of the notes that sound, to the earliest onset."""
        onsets: dict[tuple[int, int], float] = {}
        for decoder in self._channels:
            for program, pitch, onset in decoder.sounding():
                onsets[program, pitch] = min(onset, onsets.get((program, pitch), onset))
        return onsets

    @property
    def errors(self) -> Counter[str]:
        """How often each error of ``TokenErrors`` occurred, in all channels."""
        return sum((decoder.errors for decoder in self._channels), Counter())
