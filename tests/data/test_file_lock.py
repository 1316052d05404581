"""A folder that is being written is held by one process."""

import errno
import fcntl

import pytest

from amt.data.file_lock import take_lock


def test_a_second_holder_is_refused_until_the_first_closes(tmp_path):
    with open(tmp_path / "lock", "wb") as first, open(tmp_path / "lock", "wb") as second:
        take_lock(first, "held")
        with pytest.raises(ValueError, match="held"):
            take_lock(second, "held")
        first.close()
        take_lock(second, "held")


def test_a_file_system_without_locks_holds_nobody_back(tmp_path, monkeypatch):
    def none(file, how):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with open(tmp_path / "lock", "wb") as file:
        take_lock(file, "held")
