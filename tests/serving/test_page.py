"""The page in a real browser: a song is dropped, seen, heard, filtered and taken away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amt.inference import SongTranscriber, Transcription
from amt.notes import read_midi
from chromium import Browser

Start = Callable[..., Any]
Wav = Callable[..., bytes]
DONE = "document.querySelector('#tools').checkVisibility()"
INK = """(() => {
  const canvas = document.querySelector('%s');
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const colour = [data[i], data[i + 1], data[i + 2]];
    count += Math.max(...colour) - Math.min(...colour) > 60;
  }
  return count;
})()"""
"""Pixels of a canvas that have a colour: those of notes."""


def settled(browser: Browser, canvas: str = "#notes") -> int:
    """Pixels of notes, after the next picture is drawn."""
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return int(browser.value(INK % canvas))


def picture(browser: Browser) -> str:
    return str(browser.value("document.querySelector('#notes').toDataURL()"))


def text(browser: Browser, selector: str) -> str:
    return str(browser.value(f"document.querySelector({json.dumps(selector)}).innerText"))


@pytest.fixture
def song(make_wav: Wav, tmp_path: Path) -> Path:
    path = tmp_path / "a song é.wav"
    path.write_bytes(make_wav(3.0))
    return path


def test_a_song_is_dropped_seen_filtered_and_downloaded(
    start: Start, writer: SongTranscriber, browser: Browser, song: Path, tmp_path: Path
) -> None:
    client = start(writer)
    browser.open(client.server.url)
    browser.until("document.querySelector('#model').textContent")
    assert "tiny" in text(browser, "#model")
    assert not browser.value(DONE)
    browser.drop(song, "#drop")
    browser.until(DONE)
    assert text(browser, "#title") == "a song é.wav"
    job_id = browser.value("location.hash.slice(1)")
    notes = client("GET", f"/api/jobs/{job_id}/json").json["notes"]
    assert f"{len(notes)} notes in 0:03" in text(browser, "#status")
    everything = settled(browser)
    whole = picture(browser)
    assert everything > 100
    assert settled(browser, "#overview") > 20

    programs = browser.value(
        "[...document.querySelectorAll('#instrument-list input')].map(one => +one.value)"
    )
    assert len(programs) > 2
    browser.click("#instrument-list li:nth-child(1) input")
    kept = [note for note in notes if (128 if note["is_drum"] else note["program"]) != programs[0]]
    assert text(browser, "#shown") == f"{len(kept)} of {len(notes)} notes"
    assert settled(browser) < everything
    pictures = {whole, picture(browser)}

    downloads = tmp_path / "downloads"
    downloads.mkdir()
    where = {"browserContextId": browser.context, "downloadPath": str(downloads)}
    browser("Browser.setDownloadBehavior", behavior="allow", **where)
    browser.click("#get-midi")
    midi = downloads / "a song é.mid"
    for _ in range(600):
        if midi.exists() and midi.stat().st_size:
            break
        browser.value("new Promise(done => setTimeout(done, 100))")
    read = read_midi(midi)
    assert len(read) == len(kept)
    assert programs[0] not in {128 if note.is_drum else note.program for note in read}

    browser.click("#none")
    assert text(browser, "#shown") == f"0 of {len(notes)} notes"
    assert settled(browser) == 0
    pictures.add(picture(browser))
    assert len(pictures) == 3, "all notes, some and none"
    assert browser.value("!document.querySelector('#nothing').hidden")
    browser.click("#all")
    assert settled(browser) == everything
    assert picture(browser) == whole
    longest = max(note["offset"] - note["onset"] for note in notes if not note["is_drum"])
    browser.value(
        "const range = document.querySelector('#shortest'); range.value = 500;"
        "range.dispatchEvent(new Event('input'))"
    )
    drums = sum(note["is_drum"] for note in notes)
    long = sum(not note["is_drum"] and note["offset"] - note["onset"] >= 0.5 - 1e-9 for note in notes)
    assert longest > 0
    assert text(browser, "#shown") == f"{drums + long} of {len(notes)} notes"
    assert browser.faults == []


def test_the_song_and_its_transcription_are_heard(
    start: Start, writer: SongTranscriber, browser: Browser, song: Path
) -> None:
    client = start(writer)
    browser.open(client.server.url)
    browser.value(
        "window.sounds = []; const play = HTMLMediaElement.prototype.play;"
        "HTMLMediaElement.prototype.play = function () {"
        " if (!sounds.includes(this)) sounds.push(this); return play.call(this); }"
    )
    browser.choose(song, "#file")
    browser.until(DONE)
    browser.click("#hear label:nth-of-type(3) input")
    browser.until("document.querySelector('#sound-status').textContent === ''")
    browser.click("#play")
    browser.until("sounds.length === 2 && sounds.every(one => one.currentTime > 0.2)")
    assert browser.value("sounds.map(one => one.muted)") == [False, False]
    assert browser.value("sounds.map(one => one.src.split(':')[0])") == ["blob", "http"]
    browser.until("+document.querySelector('#roll').getAttribute('aria-valuenow') > 0.2")
    browser.click("#hear label:nth-of-type(2) input")
    assert browser.value("sounds.map(one => one.muted)") == [True, False]
    browser.until("document.querySelector('#play').getAttribute('aria-label') === 'Play'")
    browser.click("#roll", 0.5)
    place = float(browser.value("document.querySelector('#roll').getAttribute('aria-valuenow')"))
    assert 1.0 < place < 2.0, "the middle of three seconds, a little to the left for the names of the notes"
    browser.value("document.querySelector('#roll').focus()")
    browser.press("End")
    assert float(browser.value("document.querySelector('#roll').getAttribute('aria-valuenow')")) == 3.0
    assert browser.faults == []


def test_the_roll_fills_and_a_song_can_be_stopped(
    start: Start, writer: SongTranscriber, browser: Browser, song: Path
) -> None:
    """Notes are drawn while windows are still to come."""
    go = threading.Event()

    class Held:
        """Stops before its last window until it may go on."""

        def __init__(self, transcriber: SongTranscriber) -> None:
            self._transcriber = transcriber

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transcriber, name)

        def with_choices(self, choices: Any) -> Held:
            return Held(self._transcriber.with_choices(choices))

        def transcribe(self, path: Path, progress: Any, listener: Any) -> Transcription:
            def wait(done: int, total: int) -> None:
                progress(done, total)
                if done == total - 1:
                    assert go.wait(120)

            return self._transcriber.transcribe(path, progress=wait, listener=listener)

    client = start(Held(writer))
    try:
        browser.open(client.server.url)
        browser.drop(song, "#drop")
        browser.until("document.querySelector('#status').textContent.startsWith('Transcribing: 8')")
        assert settled(browser) > 0, "notes of the first windows"
        assert not browser.value(DONE)
        job_id = browser.value("location.hash.slice(1)")
        browser.click("#cancel")
        browser.until("document.querySelector('#work').hidden")
        go.set()
        browser.until(f"fetch('/api/jobs/{job_id}').then(answer => answer.status === 404)")
        browser.drop(song, "#drop")
        browser.until(DONE)
    finally:
        go.set()


def test_problems_are_told(start: Start, writer: SongTranscriber, browser: Browser, tmp_path: Path) -> None:
    client = start(writer)
    (tmp_path / "<b>broken.wav").write_bytes(b"RIFF, but no sound")
    (tmp_path / "empty.wav").write_bytes(b"")
    browser.open(client.server.url)
    browser.until("document.querySelector('#model').textContent")
    browser.choose(tmp_path / "<b>broken.wav", "#file")
    browser.until("!document.querySelector('#problem').hidden")
    assert text(browser, "#problem").startswith("<b>broken.wav: the file cannot be read as audio")
    assert browser.value("document.querySelector('#work').hidden")
    browser.choose(tmp_path / "empty.wav", "#file")
    browser.until("document.querySelector('#problem').textContent.includes('is empty')")


def test_a_song_is_found_again(start: Start, writer: SongTranscriber, browser: Browser, song: Path) -> None:
    """After a reload by its address, and later in the list of earlier songs."""
    client = start(writer)
    browser.open(client.server.url)
    browser.choose(song, "#file")
    browser.until(DONE)
    before = settled(browser)
    browser.reload()
    browser.until(DONE)
    assert settled(browser) == before
    assert browser.value("document.querySelector('#again').hidden"), "the file itself is not here any more"
    browser.open("about:blank")
    browser.open(client.server.url)
    browser.until("document.querySelector('#earlier-list li')")
    assert "a song é.wav" in text(browser, "#earlier-list")
    browser.click("#earlier-list .open")
    browser.until(DONE)
    browser.click("#cancel")
    browser.until("document.querySelector('#earlier').hidden")
    for _ in range(600):
        if not list(Path(client.server._folder.name).iterdir()):
            return
        time.sleep(0.1)
    raise AssertionError("its files are still there")


def test_a_late_answer_does_not_bring_back_a_removed_song(
    start: Start, writer: SongTranscriber, browser: Browser, song: Path
) -> None:
    """Its list was asked for before the song was removed, and comes after."""
    client = start(writer)
    browser.open(client.server.url)
    browser.choose(song, "#file")
    browser.until(DONE)
    browser.value(
        "window.late = []; const ask = window.fetch; let answered, release;"
        "const asked = new Promise(go => (answered = go)), gone = new Promise(go => (release = go));"
        "window.fetch = async (...request) => {"
        "  const removes = request[1]?.method === 'DELETE';"
        "  if (removes) await asked;"
        "  const answer = await ask(...request);"
        "  if (removes) setTimeout(release, 200);"
        "  else { answered(); await gone; late.push(answer.status); }"
        "  return answer; }; 0"
    )
    browser.click("#cancel")
    browser.until("late.length > 0")
    browser.value("new Promise(done => setTimeout(done, 200))")
    assert browser.value("late.includes(200)"), "the list held the song"
    assert browser.value("document.querySelector('#earlier').hidden")
    assert browser.faults == []


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_stands_out_of_the_window(
    start: Start, writer: SongTranscriber, browser: Browser, song: Path, width: int
) -> None:
    client = start(writer)
    browser("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    browser.open(client.server.url)
    browser.choose(song, "#file")
    browser.until(DONE)
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    unnamed = browser.value(
        "[...document.querySelectorAll('button, input, select, a')].filter(one => one.offsetParent"
        " && !(one.innerText || one.ariaLabel || one.labels?.length)).map(one => one.outerHTML)"
    )
    assert unnamed == [], "everything that can be used has a name"


def test_a_file_may_be_chosen_before_the_model_is_loaded(
    start: Start, writer: SongTranscriber, browser: Browser, song: Path
) -> None:
    client = start()
    browser.open(client.server.url)
    browser.until("document.querySelector('#model').textContent === 'The model is being loaded …'")
    browser.choose(song, "#file")
    browser.until("document.querySelector('#bounds').textContent.startsWith('a song é.wav is sent as soon')")
    client.server.use(writer)
    browser.until(DONE)
    assert "minutes" in text(browser, "#bounds"), "it says what it takes, now that it knows"
    assert browser.value("document.querySelector('#problem').hidden")
