"""Bugs planted into replication, one at a time, to see that the toy finds each."""

from __future__ import annotations

from tests.planting import Planted

LOG = "persistence/log/"

PLANTED = [
    Planted(
        "a follower is cut without a look at epochs",
        LOG + "replica/epochs.py",
        "if border < limit and epoch_at(mine, border) != epoch_at(theirs, border):",
        "if border < 0:",
    ),
    Planted(
        "a batch that does not follow is appended",
        LOG + "replica/follower.py",
        "        if header.base != log.batches.end:\n",
        "        if header.base < log.batches.end:\n",
    ),
    Planted(
        "the checksum of a copied payload is not compared",
        LOG + "replica/copying.py",
        "    if crc32(payload) != header.payload_crc:\n",
        "    if len(payload) > header.length:\n",
    ),
    Planted(
        "the log does not say from where on its settles are there",
        LOG + "queue/queue_log.py",
        "            self.history_start = max(self.history_start, segment.end)\n",
        "            pass\n",
    ),
    Planted(
        "a checkpoint does not wait for the high watermark",
        LOG + "queue/queue_log.py",
        "limit = self.high_watermark if self.mirrored and not self.awaits_snapshot else self.end",
        "limit = self.end",
    ),
    Planted(
        "segments above the high watermark are removed",
        LOG + "queue/queue_log.py",
        "below = self.high_watermark if self.mirrored else self.end",
        "below = self.end",
    ),
    Planted(
        "a finished cut is cut again by the next start",
        LOG + "queue/truncation.py",
        "write_checkpoint(disk, path, [log.pack_state()], clean=False",
        "write_checkpoint(disk, path, [log.pack_state(is_cut=True)], clean=False",
    ),
    Planted(
        "a snapshot comes without the producers",
        LOG + "replica/follower.py",
        "        batches.producers = state.producers\n",
        "",
    ),
    Planted(
        "a follower begins epochs of its own",
        LOG + "replica/follower.py",
        "        log.end = log.batches.end\n        log.batches.follow()\n",
        "        log.end = log.batches.end\n",
    ),
]
