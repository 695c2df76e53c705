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
    #: A round up to this size is written and synced without the worker thread.
    quick_bytes_max: int = 64 * 1024
    #: The most logs of such a round.
    quick_logs_max: int = 16
    #: Directories and files of so many new logs are made in one round, the others' in the next ones.
    new_logs_per_round: int = 4
    #: The most logs of one round: each is sealed on the event loop, and the next round waits for all.
    logs_per_round_max: int = 64
    #: Deleted logs removed in one go of the worker.
    removals_per_job: int = 4
    #: From so many recovered logs on that are not known to be durable, their whole file system is synced.
    sync_all_logs_min: int = 32
    #: Bytes of one read of a segment.
    read_bytes: int = 256 * 1024
    #: A log dirty only with settles is synced at the latest after this.
    settle_delay_ms: int = 200
    #: More dirty logs than this in one round go through the commit journal.
    journal_logs_min: int = 1
    #: ... unless they have more bytes than this each: a journal writes everything twice.
    journal_log_bytes_max: int = 64 * 1024
    #: The journal begins a new file at this size.
    journal_bytes_max: int = 16 * 1024 * 1024
    #: Logs of an old journal file synced per round, and how long an idle journal waits for that.
    journal_syncs_per_round: int = 4
    journal_idle_ms: int = 1000
    #: Segments without live messages are dropped when nothing has happened to their log for this long.
    idle_roll_s: float = 60.0
    #: ... from ``clean_bytes_min`` of them on.
    idle_roll_large_s: float = 3.0
    #: A closed segment is rewritten when its live messages are fewer than this part of its records.
    clean_live_ratio: float = 0.25
    #: ... and it has at least this many bytes; about this many are gone through in one slice.
    clean_bytes_min: int = 1024 * 1024
    clean_slice_bytes: int = 256 * 1024
    #: Transient messages beyond the memory budget go on in a new file at this size.
    page_bytes_max: int = 16 * 1024 * 1024
    #: Files kept open for writing, and as many for reading.
    descriptors_max: int = 256
