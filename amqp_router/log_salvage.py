"""``amqp-router log salvage``: writes the readable messages of a damaged log as JSON lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqp_router.exit_codes import LogDirectoryError
from amqp_router.log_text import escaped, log_names
from amqp_router.protocol.fields import plain
from amqp_router.protocol.properties import decode_properties
from persistence.errors import CorruptLog
from persistence.files import RealDisk
from persistence.log.format.identity import key_of
from persistence.log.offline.salvage import Salvage, Salvaged
from persistence.log.offline.verify import read_journals, read_node_states
from persistence.log.sync.marks import log_id, read_marks


def salvage(
    data_dir: Path, queue: str, vhost: str, out: Path, tell: Callable[[str], None]
) -> tuple[list[str], bool]:
    """Write the queue's waiting messages to ``out``; returns lines on the result, and whether nothing is
    missing.

    Raises:
        LogDirectoryError: the queue has no log, or several; or ``out`` exists.
    """
    directory = _find(data_dir, queue, vhost)
    disk = RealDisk()
    incarnation, number = directory.parent.name, int(directory.name)
    # Read first, because a running broker changes the others meanwhile.
    mark = read_marks(disk, str(data_dir)).get((log_id(incarnation), number))
    journal = read_journals(str(data_dir), disk).get(key_of(incarnation, number), ())
    faults = []
    node = None
    try:
        node = read_node_states(str(data_dir)).get(key_of(incarnation, number))
    except (CorruptLog, OSError) as error:
        faults.append(str(error))

    def progress(number: int, count: int) -> None:
        tell(f"segment {number + 1} of {count}")

    log = Salvage(disk, str(directory), node, mark=mark, journal=journal, progress=progress)
    count = 0
    try:
        with out.open("x") as file:
            for message in log.messages():
                file.write(json.dumps(_row(message)) + "\n")
                count += 1
    except FileExistsError:
        raise LogDirectoryError(f"{out}: exists; name a new file") from None
    lines = [f"{count} messages written to {out}, from {directory}"]
    lines += [f"not usable: {fault}" for fault in [*faults, *log.faults]]
    lines += [
        f"missing: offsets {gap.first} to {gap.end - 1}, up to {gap.messages} messages: {gap.where}"
        for gap in log.missing
    ]
    return [escaped(line) for line in lines], not log.missing


def _find(data_dir: Path, queue: str, vhost: str) -> Path:
    """The partition's directory of a queue, by its name or the name of its folder.

    Of several partitions one is named by its folder: ``<folder of the queue>/<number>``.
    """
    if not data_dir.is_dir():
        raise LogDirectoryError(
            f"{data_dir}: is not a directory; name the folder given to `amqp-router serve --data-dir`"
        )
    found = []
    for folder in sorted(data_dir.glob("queues/*")) + sorted(data_dir.glob("quarantine/*")):
        numbers = {"0", *(each.name for each in folder.glob("*") if each.name.isdecimal())}
        is_meant = folder.name == queue or log_names(str(folder / "0")) == (vhost, queue)
        found += [folder / each for each in sorted(numbers) if is_meant or f"{folder.name}/{each}" == queue]
    if not found:
        raise LogDirectoryError(
            f"{data_dir}: no log of a queue {queue!r} in the virtual host {vhost!r}; `log inspect` lists "
            "them, and the name of the log's folder will do, too"
        )
    if len(found) > 1:
        is_one = len({directory.parent for directory in found}) == 1
        names = [f"{each.parent.name}/{each.name}" if is_one else each.parent.name for each in found]
        folders = ", ".join(dict.fromkeys(names))
        raise LogDirectoryError(f"several logs are of queue {queue!r}: name one of the folders {folders}")
    return found[0]


def _row(message: Salvaged) -> dict[str, Any]:
    size = message.route[0] + 1 if message.route else 0
    row: dict[str, Any] = {
        "offset": message.offset,
        "time_us": message.time_us,
        "exchange": message.route[1:size].decode("utf-8", "surrogateescape"),
        "routing_key": message.route[size + 1 :].decode("utf-8", "surrogateescape"),
        "properties": _plain(decode_properties(message.properties)),
    }
    try:
        row["body"] = message.body.decode()
    except UnicodeDecodeError:
        row["body_base64"] = base64.b64encode(message.body).decode()
    return row


def _plain(properties: dict[str, Any]) -> dict[str, Any]:
    headers = properties.get("headers")
    if headers is not None:
        properties = {**properties, "headers": plain(headers)}
    shown: dict[str, Any] = json.loads(json.dumps(properties, default=str))
    return shown
