"""The clients' own test suites, as their source archives on PyPI and Debian's packages ship them.

They run unmodified but for what points them at the broker: variables of the environment, a plug-in for
pytest (``plugins/``), and in AMQPStorm, which knows no other port, the default port in its text. Left out
is what needs TLS on fixed ports, what dials hosts of its author, and what starts brokers in containers.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.interop.suites import environments
from tests.interop.suites.environments import ENVIRONMENTS, Missing
from tests.interop.suites.programs import AS_ITSELF, GO, GO_CLIENT
from tests.interop.suites.results import FAIL, Results, from_go, from_junit, from_lines
from tests.interop.suites.suite import Node, watch

HERE = Path(__file__).resolve().parent
PLUGINS = HERE / "plugins"
#: Seconds after which a suite, and one of its tests, counts as hung. A busy machine took 1,137 for one suite.
SECONDS = 3600
TEST_SECONDS = 100


class Shipped(NamedTuple):
    """A suite for pytest in the source archive of ``package``."""

    name: str
    pins: str
    package: str
    #: What pytest gets: files and choices.
    pytest: tuple[str, ...]
    #: What tells the suite where the broker is.
    variables: Callable[[Node], dict[str, str]]
    #: Changes the unpacked sources, which are a copy for this run.
    change: Callable[[Path, Node], None] | None = None
    options: tuple[str, ...] = ()
    fails_on_rabbitmq: frozenset[str] = frozenset()

    def prepare(self) -> str:
        environments.source(self.pins, self.package)
        return environments.version(self.pins, self.package)

    def run(self, node: Node, directory: Path) -> Results:
        sources = directory / "sources"
        shutil.copytree(environments.source(self.pins, self.package), sources)
        if self.change is not None:
            self.change(sources, node)
        report = directory / "report.xml"
        command = [str(environments.python(self.pins)), "-m", "pytest", "-q", "-o", "addopts="]
        command += ["-p", "no:cacheprovider", "-p", "no:warnings", "--timeout", str(TEST_SECONDS)]
        command += [f"--junitxml={report}", *self.pytest]
        variables = {"PYTHONPATH": str(PLUGINS), **self.variables(node)}
        ended = watch(command, node, directory, SECONDS, variables, cwd=sources)
        results = from_junit(report) if report.exists() else Results()
        if not results:
            told = "\n".join(ended.lines[-10:])
            results.add(
                "pytest runs", FAIL, ended.problem or f"code {ended.code}: {told} {ended.errors[-400:]}"
            )
        return results


class GoTests(NamedTuple):
    """The integration tests of the client for Go, which Debian ships with its source."""

    name: str = "suite of amqp091-go"
    options: tuple[str, ...] = ()
    fails_on_rabbitmq: frozenset[str] = frozenset()

    def prepare(self) -> str:
        GO_CLIENT.install()
        return GO_CLIENT.version()

    def run(self, node: Node, directory: Path) -> Results:
        package = Path(GO["GOPATH"]) / "src/github.com/rabbitmq/amqp091-go"
        if not package.is_dir():
            raise Missing(f"{GO_CLIENT.packages[0]} has no {package}")
        command = ["go", "test", "-tags=integration", "-v", "-count=1", "-timeout", f"{SECONDS // 2}s", "."]
        url = f"amqp://guest:guest@{node.host}:{node.port}/"
        variables = {**GO, "GOCACHE": str(ENVIRONMENTS / "go"), "AMQP_URL": url}
        ended = watch(command, node, directory, SECONDS, variables, cwd=package)
        results = from_go(ended.lines)
        if ended.problem or not results or (ended.code and not results.failures()):
            told = "\n".join(ended.lines[-10:])
            results.add(
                "go test ends", FAIL, ended.problem or f"code {ended.code}: {told} {ended.errors[-400:]}"
            )
        return results


class Rabbitmqadmin(NamedTuple):
    """RabbitMQ's own command for its HTTP API, as Debian's rabbitmq-server hands it out while it runs."""

    name: str = "rabbitmqadmin"
    options: tuple[str, ...] = ()
    fails_on_rabbitmq: frozenset[str] = frozenset()

    def prepare(self) -> str:
        environments.rabbitmqadmin()
        return environments.RABBITMQ.version()

    def run(self, node: Node, directory: Path) -> Results:
        script = HERE / "clients" / "check_rabbitmqadmin.py"
        command = [
            str(environments.python("pika")),
            str(script),
            *node.arguments(),
            str(environments.rabbitmqadmin()),
        ]
        ended = watch(command, node, directory, SECONDS)
        results = from_lines(ended.lines)
        if ended.problem or not results:
            results.add("the program ends", FAIL, ended.problem or ended.errors[-600:])
        return results


def _py_amqp(node: Node) -> dict[str, str]:
    return {"RABBITMQ_HOST": node.host, "RABBITMQ_5672_TCP": str(node.port)}


def _celery(node: Node) -> dict[str, str]:
    return {"TEST_BROKER": f"pyamqp://guest:guest@{node.host}:{node.port}//", "TEST_BACKEND": "rpc://"}


def _container(node: Node) -> dict[str, str]:
    """For ``plugins/external_broker.py``."""
    names = ("HOST", "PORT", "ADMIN_PORT")
    return dict(zip([f"INTEROP_{name}" for name in names], node.arguments(), strict=False))


def _amqpstorm(node: Node) -> dict[str, str]:
    return {
        "AMQP_HOST": node.host,
        "AMQP_USERNAME": "guest",
        "AMQP_PASSWORD": "guest",
        "AMQP_URI": f"amqp://guest:guest@{node.host}:{node.port}/%2F",
        "AMQP_HTTP_URL": f"http://{node.host}:{node.admin_port}",
    }


def _amqpstorm_port(sources: Path, node: Node) -> None:
    texts = [sources / "amqpstorm" / "connection.py", sources / "amqpstorm" / "uri_connection.py"]
    for path in [*texts, *(sources / "amqpstorm" / "tests" / "functional").rglob("*.py")]:
        path.write_text(re.sub(r"\b5672\b", str(node.port), path.read_text()))


def _rabbitpy(node: Node) -> dict[str, str]:
    return {
        "RABBITMQ_URL": f"amqp://guest:guest@{node.host}:{node.port}/%2f",
        "MANAGEMENT_URL": f"http://{node.host}:{node.admin_port}/%2f",
    }


def _celery_order(sources: Path, node: Node) -> None:
    """A test sets a variable to false after it has sent the task whose arrival sets it to true: a broker that
    is quick enough makes it fail. The line comes before the sending.
    """
    path = sources / "t" / "integration" / "test_tasks.py"
    text = path.read_text()
    sent, line = "        res = non_replaced_task.delay()\n", "        assertion_result = False\n"
    assert text.count(sent + line) == 1
    path.write_text(text.replace(sent + line, line + sent))


def _aio_pika_fixture(sources: Path, node: Node) -> None:
    """Its ``conftest.py`` has a fixture of the container itself, which goes before that of a plug-in."""
    with (sources / "tests" / "conftest.py").open("a") as conftest:
        conftest.write("\n\nfrom external_broker import rabbitmq_container  # noqa: E402,F401,F811\n")
        conftest.write("\n\ndef pytest_configure(config):  # noqa: F811\n    pass\n")


PY_AMQP_TESTS = ("--reruns", "0", "-k", "not tls", "t/integration")
KOMBU_TESTS = ("--reruns", "0", "t/integration/test_py_amqp.py")
CELERY_TESTS = ("-p", "celery.contrib.pytest", "--reruns", "0", "t/integration/test_tasks.py")
AIORMQ_TESTS = ("-p", "external_broker", "-k", "not amqps and not test_ssl", "tests")
AIO_PIKA_TESTS = ("tests", "--ignore", "tests/test_amqps.py", "--ignore", "tests/test_robust_recovery.py")
AMQPSTORM_TESTS = (
    "-k",
    "not test_api_with_inaccessible and not test_api_cluster_name",
    "--ignore",
    "amqpstorm/tests/functional/ssl",
    "amqpstorm/tests/functional",
)
#: One compares two clocks' readings, two want a log line that this version of Celery writes elsewhere.
CELERY_FAILURES = frozenset(
    (
        "t.integration.test_tasks.test_tasks::test_retry",
        "t.integration.test_tasks.test_trace_log_arguments::test_task_failed",
        "t.integration.test_tasks.test_trace_log_arguments::test_task_success",
    )
)
#: Two of the client's tasks race after ``connection.close-ok``: these fail at random with either broker.
AIORMQ_FAILURES = frozenset(
    f"tests.test_connection::test_closing_waiter_cancellation[{url}-{how}-connection-True]"
    for url in ("amqp", "amqp-named")
    for how in ("cancel", "timeout")
) | frozenset(
    f"tests.test_connection_futures::test_connection_close_during_publish_drain[{url}]"
    for url in ("amqp", "amqp-named")
)
#: The first gives the connection below the client a reason to close, as those do; the others count objects
#: that nobody has collected yet. All three fail at random with either broker.
AIO_PIKA_FAILURES = frozenset(
    (
        "tests.test_reconnect_channel_snapshot::test_create_channels_during_reconnect",
        "tests.test_memory_leak::test_leak_unclosed_channel[connect]",
        "tests.test_memory_leak::test_leak_unclosed_channel[connect_robust]",
    )
)
#: It talks to no broker: ``client_test.go`` joins client and test by two ``io.Pipe`` (``newSession``), the
#: test answers for the server, and nothing of that file reads ``AMQP_URL``. Then it waits a millisecond for
#: another goroutine, so it fails at random whatever broker runs beside it.
GO_FAILURES = frozenset(("TestNotifyClosesAllChansAfterConnectionClose",))
SUITES = (
    Shipped("suite of py-amqp", "py-amqp", "amqp", PY_AMQP_TESTS, _py_amqp),
    Shipped("suite of kombu", "kombu", "kombu", KOMBU_TESTS, _py_amqp),
    Shipped(
        "suite of kombu, product amqp-router", "kombu", "kombu", KOMBU_TESTS, _py_amqp, options=AS_ITSELF
    ),
    Shipped(
        "suite of celery",
        "celery",
        "celery",
        CELERY_TESTS,
        _celery,
        _celery_order,
        fails_on_rabbitmq=CELERY_FAILURES,
    ),
    Shipped(
        "suite of celery, product amqp-router",
        "celery",
        "celery",
        CELERY_TESTS,
        _celery,
        _celery_order,
        options=AS_ITSELF,
        fails_on_rabbitmq=CELERY_FAILURES,
    ),
    Shipped(
        "suite of aiormq", "aiormq", "aiormq", AIORMQ_TESTS, _container, fails_on_rabbitmq=AIORMQ_FAILURES
    ),
    Shipped(
        "suite of aio-pika",
        "aio-pika",
        "aio-pika",
        AIO_PIKA_TESTS,
        _container,
        _aio_pika_fixture,
        fails_on_rabbitmq=AIO_PIKA_FAILURES,
    ),
    Shipped("suite of AMQPStorm", "amqpstorm", "AMQPStorm", AMQPSTORM_TESTS, _amqpstorm, _amqpstorm_port),
    Shipped(
        "suite of rabbitpy",
        "rabbitpy",
        "rabbitpy",
        ("tests/test_integration.py", "tests/integration"),
        _rabbitpy,
    ),
    GoTests(fails_on_rabbitmq=GO_FAILURES),
    Rabbitmqadmin(),
)
