"""Clocks of training."""

import pytest

from amt.training.throughput import DataWaitProfiler, Throughput, TrainingClock


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_pauses_do_not_count_and_resume_goes_on():
    time = Time()
    clock = TrainingClock(time)
    clock.restore(50.0)
    time.now += 7
    assert clock.elapsed == 50.0
    clock.run()
    time.now += 3
    clock.pause()
    time.now += 100
    assert clock.elapsed == 53.0
    clock.run()
    clock.run()
    time.now += 2
    assert clock.elapsed == 55.0


def test_a_resumed_run_counts_from_its_own_start():
    time = Time()
    clock = TrainingClock(time)
    throughput = Throughput(clock)
    clock.restore(1000.0)
    throughput.start()
    clock.run()
    throughput.add(16, 100)
    time.now += 2
    assert throughput.read()["segments_per_second"] == pytest.approx(8.0)


def test_rates():
    time = Time()
    clock = TrainingClock(time)
    profiler = DataWaitProfiler(clock)
    throughput = Throughput(clock)
    clock.run()
    assert throughput.read() == {}
    for _ in range(4):
        profiler.start("[_TrainingEpochLoop].train_dataloader_next")
        time.now += 0.5
        profiler.stop("[_TrainingEpochLoop].train_dataloader_next")
        profiler.start("run_training_batch")
        time.now += 1.5
        profiler.stop("run_training_batch")
        throughput.add(16, 100)
    rates = throughput.read()
    assert rates["segments_per_second"] == pytest.approx(8.0)
    assert rates["tokens_per_second"] == pytest.approx(50.0)
    assert rates["data_wait_share"] == pytest.approx(0.25)
    assert throughput.read() == {}
