"""Publishers of one queue that wait until what they published is durable."""

from __future__ import annotations

from collections import deque

from vhosts.publishing.ports import Run


class Receipts:
    """Runs of publishes, each with the offset that the log's high watermark must reach."""

    __slots__ = ("end", "runs")

    def __init__(self) -> None:
        #: The offset after the last message appended to the log. Not the log's end: transient messages take
        #: offsets there, which no sync covers by itself.
        self.end = 0
        self.runs: deque[tuple[int, Run]] = deque()

    def wait(self, run: Run) -> None:
        """``run`` waits for everything appended so far."""
        run.remaining += 1
        self.runs.append((self.end, run))

    def reached(self, watermark: int) -> None:
        """Answer the publishers below the high watermark."""
        runs = self.runs
        while runs and runs[0][0] <= watermark:
            runs.popleft()[1].settled(False)

    def refuse_from(self, offset: int) -> None:
        """Refuse who waits for what was appended at ``offset`` or after it: the log has it no more."""
        runs = self.runs
        refused: list[Run] = []
        while runs and runs[len(runs) - 1][0] > offset:
            refused.append(runs.pop()[1])
        self.end = min(self.end, offset)
        for run in reversed(refused):
            run.settled(True)

    def answer_all(self, failed: bool) -> None:
        """Answer all waiting publishers; ``failed`` if their messages are lost."""
        runs = self.runs
        while runs:
            runs.popleft()[1].settled(failed)
