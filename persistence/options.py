"""Options of the log layer, handed down by the composition root."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Sizes are bytes, times as their names say."""

    #: A segment is rolled before it would grow past this.
    segment_bytes_max: int = 64 * 1024 * 1024
    #: A MESSAGES batch is closed at this size; a larger message is a batch of its own.
    batch_bytes_max: int = 256 * 1024
    #: One index entry per this many bytes of segment.
    index_interval_bytes: int = 64 * 1024
    #: A round of at most this size is written and synced without the worker thread.
    quick_bytes_max: int = 64 * 1024
    #: Such a round has at most this many logs.
    quick_logs_max: int = 16
    #: A round makes the directories and files of at most this many new logs; others wait for the next rounds.
    new_logs_per_round: int = 16
    #: The names of so many new logs in one round are made durable by one sync of their file system.
    sync_names_min: int = 4
    #: Largest number of logs in one round: each is sealed on the event loop, and the next round waits for
    #: all.
    logs_per_round_max: int = 64
    #: Deleted logs removed by one job of the worker.
    removals_per_job: int = 4
    #: If a start or an old journal file has so many logs to sync, one sync of their file system does it.
    sync_all_logs_min: int = 32
    #: Bytes of one read of a segment.
    read_bytes: int = 256 * 1024
    #: A log dirty only with settles is synced at the latest after this.
    settle_delay_ms: int = 200
    #: A round with more dirty logs than this uses the commit journal ...
    journal_logs_min: int = 1
    #: ... unless they have more bytes than this each, because a journal writes everything twice.
    journal_log_bytes_max: int = 64 * 1024
    #: The journal begins a new file at this size.
    journal_bytes_max: int = 16 * 1024 * 1024
    #: Logs of an old journal file that are synced in each round, and how long an idle journal waits for that.
    journal_syncs_per_round: int = 4
    journal_idle_ms: int = 1000
    #: Segments without live messages are dropped when their log has been idle for this long ...
    idle_roll_s: float = 60.0
    #: ... or for this long, if they have at least ``clean_bytes_min``.
    idle_roll_large_s: float = 3.0
    #: A closed segment is rewritten if fewer than this part of its records are live messages ...
    clean_live_ratio: float = 0.25
    #: ... and it has at least this many bytes. One slice processes about this many.
    clean_bytes_min: int = 1024 * 1024
    clean_slice_bytes: int = 256 * 1024
    #: At this size a page file of transient messages is followed by a new one.
    page_bytes_max: int = 16 * 1024 * 1024
    #: Files kept open for writing, and as many for reading.
    descriptors_max: int = 256
