"""A request that is answered with an error."""

from __future__ import annotations

from http import HTTPStatus


class Refusal(Exception):
    """What the client is told instead of a result.

    Attributes:
        status: of the answer.
        sentence: why, and what to do.
        retry_after: seconds after which the same request may do; 0 for never.
    """

    def __init__(self, status: HTTPStatus, sentence: str, *, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.retry_after = retry_after
