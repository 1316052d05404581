"""TensorBoard's event files, read back by Google's protobuf and by the published checksum."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from amt.config import WandbConfig
from amt.training.logger import build_loggers
from amt.training.tensorboard import TensorBoardLogger, crc32c


@pytest.fixture(scope="module")
def event_class() -> Any:
    """TensorBoard's ``Event`` (tensorflow/core/util/event.proto), the fields that are used."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, str, bool]) -> None:
        entry = file.message_type.add(name=name)
        for field, number, kind, type_name, repeated in fields:
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            item = entry.field.add(name=field, number=number, type=kind, label=label)
            if type_name:
                item.type_name = type_name

    message(
        "Value", ("tag", 1, kinds.TYPE_STRING, "", False), ("simple_value", 2, kinds.TYPE_FLOAT, "", False)
    )
    message("Summary", ("value", 1, kinds.TYPE_MESSAGE, ".t.Value", True))
    message("SessionLog", ("status", 1, kinds.TYPE_INT32, "", False))
    message(
        "Event",
        ("wall_time", 1, kinds.TYPE_DOUBLE, "", False),
        ("step", 2, kinds.TYPE_INT64, "", False),
        ("file_version", 3, kinds.TYPE_STRING, "", False),
        ("summary", 5, kinds.TYPE_MESSAGE, ".t.Summary", False),
        ("session_log", 7, kinds.TYPE_MESSAGE, ".t.SessionLog", False),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Event"))


def read(path: Path, event_class: Any) -> list[Any]:
    data, events = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body, tail = data[12 : 12 + length], data[12 + length : 16 + length]
        for checked, check in ((data[:8], data[8:12]), (body, tail)):
            value = crc32c(checked)
            masked = ((value >> 15 | value << 17) + 0xA282EAD8) % 2**32
            assert struct.unpack("<I", check) == (masked,)
        events.append(event_class.FromString(body))
        data = data[16 + length :]
    return events


def test_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA, "RFC 3720, B.4"


def test_numbers_come_back(tmp_path: Path, event_class: Any) -> None:
    logger = TensorBoardLogger(tmp_path, "p", "e")
    logger.log_metrics({"train_loss": 2.5, "step": 3.0, "epoch": 0.0}, 3)
    logger.log_metrics({"validation/macro_onset_f": 0.25, "é": 1e300, "nan": float("nan")}, 40_000_000_000)
    logger.log_metrics({"step": 4.0}, 4)
    [path] = tmp_path.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    first, second, third = read(path, event_class)
    assert (first.file_version, first.step) == ("brain.Event:2", 0)
    assert (second.step, [(v.tag, v.simple_value) for v in second.summary.value]) == (
        3,
        [("train_loss", 2.5)],
    )
    assert third.step == 40_000_000_000
    values = {value.tag: value.simple_value for value in third.summary.value}
    assert values["validation/macro_onset_f"] == 0.25
    assert values["é"] == float("inf")
    assert values["nan"] != values["nan"]
    assert third.wall_time >= second.wall_time > 1e9


def test_a_resumed_run_takes_back_lost_steps(tmp_path: Path, event_class: Any) -> None:
    logger = TensorBoardLogger(tmp_path, "p", "e", resume_step=7)
    logger.log_metrics({"a": 1.0}, 8)
    [path] = tmp_path.iterdir()
    _, start, _ = read(path, event_class)
    assert (start.step, start.session_log.status) == (8, 1)


def test_the_flag_adds_the_logger(tmp_path: Path) -> None:
    def names(tensorboard: bool) -> list[str]:
        config = WandbConfig(mode="disabled", tensorboard=tensorboard)
        return [
            type(item).__name__
            for item in build_loggers(config, "p", "e", tmp_path / "p" / "e", "scratch", {})
        ]

    assert names(False) == ["CsvLogger"]
    assert names(True) == ["CsvLogger", "TensorBoardLogger"]
