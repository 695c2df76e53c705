"""Who may call what, beside a live RabbitMQ: every path of its HTTP API with a user of each role.

    python -m tests.admin_ui.live_roles

Both brokers begin with the same objects and get the same calls in the same order. Status, error and reason of
each answer must be the same, but for what `is_meant` lets pass. ``make contract`` runs it too.
"""

from __future__ import annotations

import base64
import http.client
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tests.admin_ui.test_roles import ROLES, USERS
from tests.brokers import RabbitProcess, RouterProcess

#: Users and their tag, "" for none. ``nobody`` gives no login at all.
ROLES_OF = {**USERS, "guest": "administrator", "nobody": ""}
#: Calls that the table of roles does not have.
MORE = [
    ("GET", "/all-configuration"),
    ("GET", "/nodes/NODE/memory/relative"),
    ("GET", "/channels/nosuch"),
    ("DELETE", "/connections/username/guest"),
    ("GET", "/queues/nosuch"),
    ("GET", "/queues/nosuch/orders"),
    ("PUT", "/queues/nosuch/new"),
]
#: And those for a virtual host in which users have no permission.
OTHER = [(each["method"], each["path"].replace("/%2F", "/other")) for each in ROLES if "/%2F" in each["path"]]


class Answer(NamedTuple):
    """What must be the same: the status, and an error with its reason."""

    status: int
    error: str
    reason: str


class Caller:
    """Calls one broker."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.node = str(json.loads(self.call("GET", "/overview")[1])["node"])

    def call(self, method: str, path: str, user: str = "guest", body: Any = None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if user != "nobody":
            login = f"{user}:{'guest' if user == 'guest' else 'secret'}"
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        data = None if body is None else json.dumps(body)
        for attempt in (0, 1):
            try:
                self.connection.request(method, f"/api{path}", data, headers)
                reply = self.connection.getresponse()
                return reply.status, reply.read()
            except (ConnectionError, http.client.HTTPException):
                self.connection.close()  # it was idle, or the broker has closed it with its answer
                if attempt:
                    raise
        raise AssertionError

    def seed(self) -> None:
        """Users of all roles, who may do everything in ``/`` and nothing in ``other``; a queue in each."""
        rights = dict.fromkeys(("configure", "write", "read"), ".*")
        wanted: list[tuple[str, Any]] = [("/vhosts/other", {})]
        for user, tag in USERS.items():
            wanted.append((f"/users/{user}", {"password": "secret", "tags": tag}))
            wanted.append((f"/permissions/%2F/{user}", rights))
        wanted += [("/queues/%2F/orders", {"durable": True}), ("/queues/other/orders", {"durable": True})]
        for path, body in wanted:
            status, said = self.call("PUT", path, body=body)
            assert status < 300, (path, status, said)
        # Who makes a virtual host may do everything in it.
        self.call("DELETE", "/permissions/other/guest")

    def answer(self, method: str, path: str, user: str) -> Answer:
        body = {} if method in ("PUT", "POST") else None
        status, data = self.call(method, path.replace("NODE", self.node), user, body)
        try:
            said = json.loads(data)
        except ValueError:
            said = {}
        if status < 400 or not isinstance(said, dict):
            return Answer(status, "", "")
        reason = said.get("reason", "")
        text = reason if isinstance(reason, str) else json.dumps(reason)
        return Answer(status, str(said.get("error", "")), text.replace(self.node, "NODE"))


#: An administrator who is not let into a virtual host is refused there before the object is looked for.
NOT_LOOKED_FOR = {
    ("DELETE", "/exchanges/other/nosuch"),
    ("DELETE", "/queues/other/nosuch"),
    ("DELETE", "/queues/other/nosuch/contents"),
    ("DELETE", "/bindings/other/e/amq.direct/q/nosuch/~"),
}


def is_meant(method: str, path: str, theirs: Answer, ours: Answer) -> bool:
    """Whether a difference is one that the documentation names."""
    if theirs.status >= 500 > ours.status:
        return True  # a fault of theirs
    if theirs == Answer(401, "", "") and ours == Answer(401, "not_authorized", "Login required"):
        return True  # here the answer says why
    return (method, path) in NOT_LOOKED_FOR and ours == Answer(401, "not_authorised", "Access refused.")


def compare(theirs: Caller, ours: Caller) -> int:
    """Ask both; prints what differs. Returns the number of differences that are not meant."""
    calls = [(each["method"], each["path"]) for each in ROLES] + MORE + OTHER
    bad, kinds = 0, Counter[str]()
    for method, path in calls:
        for user in ("nobody", *USERS, "guest"):
            their, our = (each.answer(method, path, user) for each in (theirs, ours))
            if their == our:
                kinds["same"] += 1
            elif is_meant(method, path, their, our):
                kinds["meant"] += 1
            else:
                bad += 1
                print(f"{method} {path} {user}\n    RabbitMQ {tuple(their)}\n    here     {tuple(our)}")
    kinds["not meant"] = bad
    print(f"{len(calls)} calls with {len(ROLES_OF)} users: {dict(kinds)}")
    return bad


def main() -> int:
    """Run it; returns the exit code."""
    if not RabbitProcess.available():
        print("roles: Debian's rabbitmq-server is not installed, nothing was compared")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rabbit = RabbitProcess(Path(folder) / "rabbit", plugins=["rabbitmq_management"], start_seconds=300)
        router = RouterProcess(Path(folder) / "router")
        for directory in (rabbit.directory, router.directory):
            directory.mkdir()
        rabbit.start()
        router.start()
        try:
            theirs, ours = Caller(rabbit.admin_port), Caller(router.admin_port)
            for each in (theirs, ours):
                each.seed()
            return 1 if compare(theirs, ours) else 0
        finally:
            rabbit.stop()
            router.stop()


if __name__ == "__main__":
    sys.exit(main())
