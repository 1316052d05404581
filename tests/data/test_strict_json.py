"""JSON that would go wrong in hour three is refused at the start (case D50, files i1 to i9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from amt.data.strict_json import read_json, read_json_object


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"0": {"id": "t1", "n_frames": NaN, "weight": Infinity}}', "NaN is not a JSON number"),
        (b'{"weight": -Infinity}', "-Infinity is not a JSON number"),
        (b"[" * 200_000, "recursion"),
        (b'{"weight": [-1e309]}', "-1e309 is too large a number"),
        (b'{"0": {"id": "t1"}, "0": {"id": "t2"}}', "the key '0' occurs twice"),
        (b'{"0": {"id": "t1", "id": "t1"}}', "the key 'id' occurs twice"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (b'{"0": {"id": "t1"', "line 1 column 18"),
        (b'{"title": "caf\xe9"}', "is not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),
        (b"[1, 2]", "must hold a JSON object, not a list"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "index é.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_json_object(path)
    assert "index é.json" in str(caught.value)


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    path.write_bytes(b'\xef\xbb\xbf{"0": {"id": "t1", "n_frames": 16000}}')
    assert read_json_object(path) == {"0": {"id": "t1", "n_frames": 16000}}
    path.write_bytes(b"[{}]")
    assert read_json(path) == [{}]
    for missing in (tmp_path / "gone.json", tmp_path):
        with pytest.raises(ValueError, match=r"missing|cannot be read"):
            read_json(missing)
