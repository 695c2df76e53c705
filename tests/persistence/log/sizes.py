"""Options with which a few messages fill each batch, segment, index interval and journal."""

from __future__ import annotations

from dataclasses import replace

from persistence.options import LogOptions

OPTIONS = LogOptions(
    segment_bytes_max=1500,
    batch_bytes_max=500,
    index_interval_bytes=300,
    read_bytes=700,
    journal_logs_min=1,
    journal_log_bytes_max=1500,
    journal_bytes_max=2500,
    journal_syncs_per_round=1,
    descriptors_max=3,
    sync_all_logs_min=2,
    sync_names_min=3,
    clean_live_ratio=0.7,
    clean_bytes_min=200,
    clean_slice_bytes=1000,
)
#: With room for rounds small enough for the flusher: segments and descriptors stay open.
ROOMY = replace(
    OPTIONS, segment_bytes_max=6000, descriptors_max=8, journal_bytes_max=6000, clean_bytes_min=600
)
