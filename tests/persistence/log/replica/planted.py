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
        LOG + "queue/saving.py",
        "            copies.history_start = max(copies.history_start, segment.end)\n",
        "            pass\n",
    ),
    Planted(
        "a checkpoint does not wait for the high watermark",
        LOG + "queue/saving.py",
        "limit = log.high_watermark if log.copies.holds_checkpoints else log.end",
        "limit = log.end",
    ),
    Planted(
        "segments above the high watermark are removed",
        LOG + "queue/saving.py",
        "below = log.high_watermark if copies.mirrored else log.end",
        "below = log.end",
    ),
    Planted(
        "a finished cut is cut again by the next start",
        LOG + "queue/truncation.py",
        "write_checkpoint(disk, path, [pack_state(log)], clean=False",
        "write_checkpoint(disk, path, [pack_state(log, is_cut=True)], clean=False",
    ),
    Planted(
        "a snapshot comes without the producers",
        LOG + "replica/follower.py",
        "        batches.taken.begin(state)\n",
        "        batches.taken.sources = state.sources\n",
    ),
    Planted(
        "a message counts when it is durable on one of several nodes",
        LOG + "queue/queue_log.py",
        "        if not copies.mirrored:\n            self.advance_high_watermark(end)\n        else:",
        "        self.advance_high_watermark(end)\n        if True:",
    ),
    Planted(
        "who waits for what a truncation has cut hears nothing",
        LOG + "queue/truncation.py",
        "    log.refuse_from(log.end)\n",
        "",
    ),
    Planted(
        "readers in other processes see what may still be cut",
        LOG + "queue/queue_log.py",
        "        return copies.shown.place(partition, self.reader, min(self.high_watermark, self.durable))\n",
        "        return self.durable, *partition.synced_place()\n",
    ),
    Planted(
        "readers in other processes miss a segment whose settles no checkpoint has yet",
        LOG + "queue/copies.py",
        "        if segment.end < watermark and at + 1 < len(segments):\n",
        "        if segment.end < 0:\n",
    ),
    Planted(
        "readers in other processes do not hear of the high watermark",
        LOG + "queue/queue_log.py",
        "                    self.due.sync.show(self)\n",
        "                    pass\n",
    ),
    Planted(
        "readers in other processes see messages whose settles are not known yet",
        LOG + "queue/queue_log.py",
        "        if copies.awaits_snapshot:\n            return self.start, self.start, 0\n",
        "",
    ),
    Planted(
        "the end of a truncated log counts as its high watermark after a start",
        LOG + "queue/queue_log.py",
        "stored = max(copies.stored_watermark, state.high_watermark)\n",
        "stored = max(copies.stored_watermark, state.high_watermark, self.checkpoints.offset)\n",
        seeds=60,
    ),
    Planted(
        "a copied batch is stamped anew",
        LOG + "queue/recovery.py",
        "    batch.max_ts_delta = header.max_ts_delta\n",
        "",
    ),
    Planted(
        "a follower begins epochs of its own",
        LOG + "replica/follower.py",
        "        log.end = log.batches.end\n        log.batches.epochs.follow()\n",
        "        log.end = log.batches.end\n",
    ),
]
