"""Applications under load, whose broker is killed (``kill -9``) and started again while they run."""

from __future__ import annotations

from tests.interop.suites.programs import Program

#: For how long each is under load.
LOAD_SECONDS = 120
#: The most that one takes with the end of its work.
SECONDS = 900


def _celery(queues: str) -> Program:
    return Program(
        f"Celery application, broker killed, {queues} queues",
        "load_celery.py",
        "load",
        "celery",
        arguments=(queues, str(LOAD_SECONDS)),
        seconds=SECONDS,
    )


APPLICATIONS = (
    _celery("classic"),
    _celery("quorum"),
    Program(
        "aio-pika RPC service, broker killed",
        "load_rpc.py",
        "load",
        "aio-pika",
        arguments=(str(LOAD_SECONDS),),
        seconds=SECONDS,
    ),
)
