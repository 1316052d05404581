"""What a test leaves behind: JSON that fits its schema, a CSV, a page that needs nothing else, and tables."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from amt.config.names import counted
from amt.data.scored import ScoredSet
from amt.evaluation import PairedDifference
from amt.notes import Note
from amt.reports.page import Example, excerpt
from amt.reports.plan import TestPlan
from amt.reports.result import (
    SCHEMA,
    Comparison,
    compare_results,
    read_result,
    stored_result,
    write_comparison,
    write_result,
    write_songs,
)
from amt.reports.result_page import worst_part, write_result_page
from amt.reports.run import TestRun, run_test
from amt.reports.table import comparison_scopes, print_comparison, print_result, verdict

PLAN = TestPlan(octave_shift=True, label_shift=True, num_shown=1)


@pytest.fixture
def run(noisy, band_set: ScoredSet, tmp_path: Path) -> TestRun:
    return run_test(noisy, [band_set], PLAN, tmp_path)


def strict(path: Path) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def violations(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str = "") -> list[str]:
    """What breaks the part of JSON Schema (2020-12) that our schema uses; any other keyword is refused."""
    found: list[str] = []
    for keyword, wanted in schema.items():
        if keyword in ("$schema", "$defs", "title"):
            continue
        if keyword == "$ref":
            found += violations(value, root["$defs"][wanted.removeprefix("#/$defs/")], root, place)
        elif keyword == "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            if not any(
                isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
                for kind in kinds
            ):
                return [f"{place}: {value!r} is no {wanted}"]
        elif keyword == "const":
            found += [] if value == wanted else [f"{place}: {value!r} is not {wanted!r}"]
        elif keyword == "enum":
            found += [] if value in wanted else [f"{place}: {value!r} is none of {wanted}"]
        elif keyword == "minimum":
            found += [f"{place}: {value} < {wanted}"] if value < wanted else []
        elif keyword == "maximum":
            found += [f"{place}: {value} > {wanted}"] if value > wanted else []
        elif keyword == "pattern":
            found += [] if re.search(wanted, value) else [f"{place}: {value!r} does not fit {wanted}"]
        elif keyword == "items":
            if isinstance(value, list):
                found += [
                    v for i, item in enumerate(value) for v in violations(item, wanted, root, f"{place}/{i}")
                ]
        elif not isinstance(value, dict):
            continue
        elif keyword == "required":
            found += [f"{place}: {name} is missing" for name in wanted if name not in value]
        elif keyword == "properties":
            for name, part in wanted.items():
                if name in value:
                    found += violations(value[name], part, root, f"{place}/{name}")
        elif keyword == "propertyNames":
            found += [v for name in value for v in violations(name, wanted, root, f"{place}/{name}")]
        elif keyword == "additionalProperties":
            for name in set(value) - set(schema.get("properties", {})):
                if wanted is False:
                    found.append(f"{place}: {name} is not known")
                else:
                    found += violations(value[name], wanted, root, f"{place}/{name}")
        else:
            raise AssertionError(f"the schema uses {keyword}, which this check does not know")
    return found


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = strict(SCHEMA)
    return loaded


def test_the_json_fits_its_schema(run: TestRun, tmp_path: Path) -> None:
    write_result(tmp_path / "result.json", run.result)
    plain = strict(tmp_path / "result.json")
    assert violations(plain, schema(), schema()) == []
    assert [song["song_id"] for song in plain["songs"]] == [f"song{n}" for n in range(4)]
    assert len({song["audio_sha256"] for song in plain["songs"]}) == 4
    [item] = plain["sets"]
    assert (item["num_songs"], item["seconds"]) == (4, 48.0)
    assert item["num_notes"] == sum(song["num_notes"] for song in plain["songs"])
    errors = item["errors"]
    confusion = np.array(errors["confusion"])
    assert confusion[:-1].sum() == item["num_notes"]
    assert confusion[:, :-1].sum() == item["num_estimated"]
    assert errors["leakage"]["Bass"]["out"] > 0
    assert plain["metrics"]["test/(band)onset_f_drum"]["value"] == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plain: plain.pop("songs"), "songs is missing"),
        (lambda plain: plain.update(version=2), "2 is not 1"),
        (lambda plain: plain["songs"][0].update(num_notes=-1), "-1 < 0"),
        (lambda plain: plain["songs"][0].update(audio_sha256="x"), "does not fit"),
        (lambda plain: plain["sets"][0].update(mood="good"), "mood is not known"),
        (lambda plain: plain["metrics"].update(onset_f={}), "value is missing"),
    ],
)
def test_the_schema_sees_what_is_wrong(run: TestRun, change: Any, words: str) -> None:
    plain = run.result.to_dict()
    change(plain)
    assert words in " ".join(violations(plain, schema(), schema()))


def test_the_csv_has_a_row_for_each_song(run: TestRun, tmp_path: Path) -> None:
    write_songs(tmp_path / "songs.csv", run.result)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "songs.csv").read_text())))
    assert len(rows) == 4
    for row, song in zip(rows, run.result.songs, strict=True):
        assert (row["set"], row["song_id"], row["audio_sha256"]) == ("band", song.song_id, song.audio_sha256)
        assert int(row["missed"]) == song.errors.counts["missed"]
        for key, value in song.scores.scores.items():
            assert row[key] == "" if math.isnan(value) else float(row[key]) == pytest.approx(value)


def test_a_result_is_read_back(run: TestRun, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_result(path, run.result)
    stored = read_result(path)
    assert stored.name == run.result.name
    for song in run.result.songs:
        read = stored.scores["band", song.song_id]
        assert read.keys() == song.scores.scores.keys()
        assert read["onset_f"] == song.scores.scores["onset_f"]
    (tmp_path / "other.json").write_text('{"format": "else"}')
    with pytest.raises(ValueError, match=r"other\.json is no result of test\.py"):
        read_result(tmp_path / "other.json")
    path.write_text(path.read_text().replace('"version": 1', '"version": 7'))
    with pytest.raises(ValueError, match="version 7"):
        read_result(path)
    (tmp_path / "part.json").write_text('{"format": "amt-test", "version": 1, "songs": [{}]}')
    with pytest.raises(ValueError, match="is damaged"):
        read_result(tmp_path / "part.json")


def test_a_comparison(run: TestRun, make_system, band_set: ScoredSet, tmp_path: Path) -> None:
    perfect = run_test(make_system(lambda number, notes: notes), [band_set], PLAN, tmp_path)
    a, b = stored_result(run.result.to_dict()), stored_result(perfect.result.to_dict())
    found = compare_results(a, b)
    better = found.differences["test/(band)onset_f"]
    own = [song.scores.scores["onset_f"] for song in run.result.songs]
    assert better.difference == pytest.approx(1 - np.mean(own))
    assert better.share_better == 1.0
    assert better.num_songs == found.num_songs == 4
    assert found.remarks == []
    assert compare_results(a, a).differences["test/macro_onset_f"].share_better == 0.5
    write_comparison(tmp_path, found)
    plain = strict(tmp_path / "comparison.json")
    assert plain["differences"]["test/(band)onset_f"]["difference"] == pytest.approx(better.difference)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "comparison.csv").read_text())))
    assert [row["metric"] for row in rows] == list(found.differences)
    console = Console(file=io.StringIO(), width=110)
    print_comparison(found, console)
    said = console.file.getvalue()
    assert "4 songs in common (band)" in said
    assert len(re.findall(r"^ *onset F1 ", said, re.MULTILINE)) == 1, "each measure once for one set"
    assert "macro" not in said
    assert "all sets" not in said
    assert f"{better.difference:+.4f}" in said
    assert "_strict" not in said
    assert said.splitlines()[-1].startswith("4 songs are too few to tell which is better in onset F1: +")


def test_a_comparison_of_two_sets_names_them() -> None:
    found = PairedDifference(0.1, (0.05, 0.15), 1.0, 6)
    keys = ("macro_offset_f", "macro_onset_f", "macro_onset_f_strict", "macro_onset_f_Bass")
    keys += ("(a [b])onset_f", "(c)onset_f", "(c)onset_f_Bass", "(c)onset_f_drum")
    differences = {f"test/{key}": found for key in keys}
    assert {scope: list(rows) for scope, rows in comparison_scopes(differences).items()} == {
        "a [b]": ["onset F1"],
        "c": ["onset F1", "drum onset F1"],
        "all sets": ["onset F1", "onset and offset F1"],
    }
    console = Console(file=io.StringIO(), width=110)
    print_comparison(Comparison("x", "y", 6, differences), console)
    lines = console.file.getvalue().splitlines()
    assert [line for line in lines if line in ("a [b]", "c", "all sets")] == ["a [b]", "c", "all sets"]
    assert lines[-1] == "B is better in onset F1: +0.100 (95 % interval +0.050 to +0.150, 6 songs)"


def test_a_comparison_without_reference_notes_says_so() -> None:
    console = Console(file=io.StringIO(), width=110)
    print_comparison(Comparison("x", "y", 6, {}), console)
    assert "nothing to compare" in console.file.getvalue()


@pytest.mark.parametrize(
    ("difference", "interval", "songs", "text"),
    [
        (
            0.021,
            (0.005, 0.04),
            14,
            "B is better in onset F1: +0.021 (95 % interval +0.005 to +0.040, 14 songs)",
        ),
        (
            -0.03,
            (-0.04, -0.01),
            5,
            "A is better in onset F1: -0.030 (95 % interval -0.040 to -0.010, 5 songs)",
        ),
        (-0.006, (-0.018, -0.0), 14, "no sure difference in onset F1: -0.006 (-0.018 to +0.000, 14 songs)"),
        (0.333, (0.2, 0.4), 4, "4 songs are too few to tell which is better in onset F1: +0.333"),
        (-0.1, (-0.1, -0.1), 1, "1 song is too few to tell which is better in onset F1: -0.100"),
    ],
)
def test_the_verdict(difference: float, interval: tuple[float, float], songs: int, text: str) -> None:
    assert verdict("onset F1", PairedDifference(difference, interval, 0.5, songs)) == text


def test_an_unfair_comparison_says_so(run: TestRun) -> None:
    plain = run.result.to_dict()
    a = stored_result(plain)
    plain["songs"] = plain["songs"][1:]
    plain["songs"][0]["audio_sha256"] = "0" * 64
    plain["sets"][0]["labels_sha256"] = "0" * 64
    plain["conventions"]["onset_tolerance"] = 0.1
    remarks = compare_results(a, stored_result(plain)).remarks
    assert any("1 song was scored by one of the two only" in remark for remark in remarks)
    assert any("audio of 1 song differs" in remark and "song1" in remark for remark in remarks)
    assert any(f"different notes or songs of {plain['sets'][0]['name']}" in remark for remark in remarks)
    assert any("onset_tolerance differs: 0.05 and 0.1" in remark for remark in remarks)
    plain["songs"] = []
    with pytest.raises(ValueError, match="no song in common"):
        compare_results(a, stored_result(plain))


def test_the_tables_say_the_same_as_the_json(run: TestRun) -> None:
    console = Console(file=io.StringIO(), width=110)
    print_result(run.result, console)
    said = console.file.getvalue()
    metric = run.result.metrics["test/(band)onset_f"]
    assert re.search(rf"onset F1 +{metric.value:.3f} +{metric.low:.3f} to {metric.high:.3f}", said)
    for words in (
        "4 songs, 212 notes",
        "48 s, 28 windows, 6 tokens made no note and were left out",
        "Piano",
        "octave off",
    ):
        assert words in said
    assert re.search(r"Drums +84 +84 +1\.000 +– +0\.0 % +0\.0 %", said)
    assert "octave shift of Piano: best +0 semitones" in said


def test_the_page_needs_nothing_else(run: TestRun, read_page: Any, tmp_path: Path) -> None:
    write_result_page(tmp_path / "report.html", run)
    page = read_page(tmp_path / "report.html")
    assert "NaN" not in page.text
    assert (page.tags.count("img"), page.tags.count("audio")) == (2, 6)
    for words in (
        "Test of hears <all> & more",
        "wrong instrument",
        "How early or late",
        "Which instrument was taken for which",
        "Labels moved by octaves",
        "(best 1 of band)",
        "(worst 1 of band)",
        run.result.songs[0].audio_sha256[:12],
        "mc13_fsingle",
    ):
        assert words in page.text, words
    assert page.tags.count("rect") == 41, "the histogram of onsets"


def test_long_songs_are_shown_where_the_errors_are() -> None:
    reference = [Note(float(t), t + 0.4, 60) for t in range(100)]
    estimate = [note for note in reference if not 70 <= note.onset < 90]
    item = Example("long", np.zeros(100 * 100, np.float32), 100, estimate, reference, 0.5)
    start = worst_part(item, 30.0)
    assert start == 60.0
    part = excerpt(item, start, 30.0)
    assert len(part.audio) == 3000
    assert [note.onset for note in part.reference] == [float(t) for t in range(30)]
    assert [note.onset for note in part.estimate] == [float(t) for t in range(10)]
    cut = excerpt(item, 0.2, 10.0)
    assert cut.reference[0].onset == 0.0
    assert cut.reference[0].offset == pytest.approx(0.2)
    assert cut.reference[-1].offset == 10.0
    same = Example("right", item.audio, 100, reference[:50], reference[:50], 1.0)
    assert worst_part(same, 30.0) == 0.0, "without errors where most notes are"


@pytest.mark.parametrize("songs", [1, 2])
def test_a_song_or_two_have_no_interval(noisy: Any, band_set: ScoredSet, tmp_path: Path, songs: int) -> None:
    """Drawing from one or two songs says nothing: neither tables nor page show an interval."""
    one = run_test(noisy, [band_set], TestPlan(max_songs=songs), tmp_path)
    console = Console(file=io.StringIO(), width=110)
    print_result(one.result, console)
    said = console.file.getvalue()
    assert f"{counted(songs, 'song')}, " in said
    assert re.search(r"onset F1 +\d\.\d{3} +too few songs ", said)
    assert not re.search(r"\d\.\d{3} to \d\.\d{3}", said)
    write_result_page(tmp_path / "report.html", one)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{counted(songs, 'song')} of 1 set" in text
    assert 'class="spread"' not in text
    stored = stored_result(one.result.to_dict())
    console = Console(file=io.StringIO(), width=110)
    print_comparison(compare_results(stored, stored), console)
    said = console.file.getvalue()
    assert f"{counted(songs, 'song')} in common" in said
    assert "too few songs" in said
    assert "resamples" not in said
