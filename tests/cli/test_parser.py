"""The strict reader of command lines."""

from __future__ import annotations

import pytest

from amt.cli.parser import Option, UsageError, format_help, is_option_like, parse

OPTIONS = (
    Option("--size", "a size", "-s", "int"),
    Option("--range", "two ends", "-r", "float", count=2),
    Option("--names", "some names", "-n", count=0),
    Option("--switch", "a switch", "", "switch"),
    Option("--flag", "a flag", "-f", "bool"),
    Option("--kind", "a kind", "-k", choices=("Alpha", "beta")),
    Option("--path", "a path", may_be_empty=True),
)


def refused(*argv: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse(argv, OPTIONS)
    return str(caught.value)


def test_words_and_options_in_any_order() -> None:
    line = parse(["a", "--switch", "b", "-s", "3"], OPTIONS)
    assert line.words == ("a", "b")
    assert line.has("--switch")
    assert line.get("--size", 0) == 3
    assert line.get("--flag", "unset") == "unset"


@pytest.mark.parametrize("word", ["-1", "-1.5", "-.5", "-1e-3", "-0", "-", "1", "x", ""])
def test_numbers_and_words_are_values(word: str) -> None:
    assert not is_option_like(word)


@pytest.mark.parametrize("word", ["-a", "--a", "--", "-1a", "-e3", "-inf"])
def test_option_like_words(word: str) -> None:
    assert is_option_like(word)


def test_negative_numbers_are_values() -> None:
    assert parse(["-r", "-1e-3", "-.5"], OPTIONS).given["--range"].values == (-0.001, -0.5)
    assert parse(["-s", "-1"], OPTIONS).get("--size", 0) == -1


def test_last_of_two_wins() -> None:
    assert parse(["-s", "1", "--size", "2"], OPTIONS).get("--size", 0) == 2


def test_choices_ignore_case_and_keep_their_spelling() -> None:
    assert parse(["-k", "ALPHA"], OPTIONS).get("--kind", "") == "Alpha"
    assert "did you mean 'beta'" in refused("-k", "betta")


def test_one_or_more_ends_at_the_next_option() -> None:
    line = parse(["-n", "a", "-2", "-s", "1"], OPTIONS)
    assert line.given["--names"].values == ("a", "-2")


def test_number_of_values() -> None:
    assert refused("-r", "1") == "-r expects 2 values, got 1"
    assert "before -s" in refused("-r", "1", "-s", "1")
    assert "one or more values" in refused("-n", "-s", "1")
    assert parse(["-r", "1", "2", "word"], OPTIONS).words == ("word",)


@pytest.mark.parametrize("text", ["true", "TRUE", "1", "yes", "y"])
def test_true(text: str) -> None:
    assert parse(["-f", text], OPTIONS).get("--flag", None or "") is True


@pytest.mark.parametrize("text", ["false", "False", "0", "no", "n"])
def test_false(text: str) -> None:
    assert parse(["-f", text], OPTIONS).get("--flag", "") is False


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["-f", "maybe"], "true or false"),
        (["-f", ""], "empty"),
        (["-s", "1.5"], "whole number"),
        (["-s", "1_000"], "whole number"),
        (["-s", "٣"], "whole number"),
        (["-r", "nan", "1"], "expects a number"),
        (["-r", "1", "inf"], "expects a number"),
        (["-s3"], "unknown option -s3; did you mean -s/--size"),
        (["-s=3"], "write them apart: -s 3"),
        (["--size=3"], "write them apart: --size 3"),
        (["--siz", "3"], "did you mean -s/--size"),
        (["--zzzzzz"], "unknown option --zzzzzz"),
    ],
)
def test_refused(argv: list[str], part: str) -> None:
    assert part in refused(*argv)


def test_empty_value_where_it_means_something() -> None:
    assert parse(["--path", ""], OPTIONS).get("--path", "x") == ""


def test_double_dash_ends_options() -> None:
    assert parse(["--", "-s", "--size"], OPTIONS).words == ("-s", "--size")


def test_unavailable_names_have_their_own_sentence() -> None:
    with pytest.raises(UsageError, match="gone for good"):
        parse(["-old", "1"], OPTIONS, {"-old": "gone for good"})


def test_help_lists_every_option_with_defaults_and_choices() -> None:
    grouped = [Option(**{**vars(option), "group": "all"}) for option in OPTIONS]
    text = format_help("prog", "What it does.", grouped, {"--size": "7"}, ("all",))
    for option in OPTIONS:
        assert option.long in text
    assert "(default: 7)" in text
    assert "Alpha, beta" in text
    assert max(len(line) for line in text.splitlines()) <= 100
