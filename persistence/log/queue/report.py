"""What recovery of a log did, and what it found to cut."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """What recovery of one log did."""

    scanned_bytes: int = 0
    cut_path: str = ""
    cut_position: int = 0
    cut_bytes: int = 0
    replayed_batches: int = 0
    #: Segments that are completely after the cut.
    cut_segments: list[str] = field(default_factory=list)
    #: Whether the octets that are cut were left by an unfinished truncation.
    is_leftover: bool = False
    #: The file with the cut bytes; empty if there is none.
    kept_path: str = ""
    #: Position in the last segment up to which, by its own batches, it was synced.
    synced_position: int = 0
