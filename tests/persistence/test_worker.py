"""The worker thread outlives what goes wrong in it."""

from __future__ import annotations

import logging

import pytest

from persistence.worker import ThreadWorker


def test_a_job_that_fails_is_told_of_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    worker = ThreadWorker("log-test")
    done: list[int] = []
    with caplog.at_level(logging.ERROR):
        worker.submit(lambda: done.append(1 // 0))
        worker.submit(lambda: done.append(2))
        worker.wait_idle()
    assert done == [2]
    assert "a job of the thread log-test failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    worker.stop()
    assert worker.is_idle
