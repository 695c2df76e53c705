"""Programs written for this purpose, one for each client, in the client's own language (``clients/``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.interop.suites import environments
from tests.interop.suites.environments import Debian
from tests.interop.suites.results import FAIL, Results, from_lines
from tests.interop.suites.suite import Node, watch

SCRIPTS = Path(__file__).resolve().parent / "clients"
SECONDS = 300
#: The broker under its own name, of which kombu asks for prefetch differently.
AS_ITSELF = ("--product", "amqp-router")


class Interpreter(NamedTuple):
    """How programs of a language are run: the command before the script, and variables of the environment."""

    command: Callable[[str], list[str]]
    variables: Callable[[], dict[str, str]] = dict


def _node_variables() -> dict[str, str]:
    return {"NODE_PATH": str(environments.node() / "node_modules")}


#: Where Debian puts Java's and Go's libraries.
JARS = "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-nop.jar"
GO = {"GO111MODULE": "off", "GOFLAGS": "", "GOPATH": "/usr/share/gocode"}
INTERPRETERS = {
    ".py": Interpreter(lambda name: [str(environments.python(name))]),
    ".js": Interpreter(lambda _: ["node"], _node_variables),
    ".php": Interpreter(lambda _: ["php"]),
    ".rb": Interpreter(lambda _: ["ruby"]),
    ".java": Interpreter(lambda _: ["java", "-cp", JARS]),
    ".go": Interpreter(
        lambda _: ["go", "run"], lambda: {**GO, "GOCACHE": str(environments.ENVIRONMENTS / "go")}
    ),
}


class Program(NamedTuple):
    """A script of ``clients/``; see ``clients/checks.py`` for what it gets and prints."""

    name: str
    script: str
    #: For a script in Python: the file of ``pins/`` with its packages.
    pins: str = ""
    #: The package whose version the table shows, unless it is one of Debian.
    package: str = ""
    debian: Debian | None = None
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    fails_on_rabbitmq: frozenset[str] = frozenset()
    seconds: float = SECONDS

    def prepare(self) -> str:
        if self.debian is not None:
            self.debian.install()
        if self.script.endswith(".js"):
            return environments.node_version(self.package)
        if self.pins:
            environments.python(self.pins)
        if self.debian is not None:
            return self.debian.version()
        return environments.version(self.pins, self.package)

    def run(self, node: Node, directory: Path) -> Results:
        interpreter = INTERPRETERS[Path(self.script).suffix]
        command = [
            *interpreter.command(self.pins),
            str(SCRIPTS / self.script),
            *node.arguments(),
            *self.arguments,
        ]
        ended = watch(command, node, directory, self.seconds, interpreter.variables())
        results = from_lines(ended.lines)
        problem = ended.problem
        if not problem and (not results or ended.code not in (0, 1)):
            problem = f"ended with code {ended.code}"
        if problem:
            results.add("the program ends by itself", FAIL, f"{problem}: {ended.errors[-600:]}")
        return results


AMQP_TOOLS = Debian(("amqp-tools",))
PHP = Debian(("php-amqplib", "php-cli"))
RUBY = Debian(("ruby-bunny", "ruby"))
JAVA = Debian(("librabbitmq-client-java", "libslf4j-java", "default-jdk-headless"))
GO_CLIENT = Debian(("golang-github-rabbitmq-amqp091-go-dev", "golang-uber-goleak-dev", "golang-go"))
PROGRAMS = (
    Program("pika: blocking, select, asyncio", "check_pika.py", "pika", "pika"),
    Program("pika: every adapter", "check_pika_adapters.py", "pika-adapters", "pika"),
    Program("aio-pika", "check_aio_pika.py", "aio-pika", "aio-pika"),
    Program("aiormq", "check_aiormq.py", "aiormq", "aiormq"),
    Program("AMQPStorm", "check_amqpstorm.py", "amqpstorm", "AMQPStorm"),
    Program("py-amqp", "check_py_amqp.py", "py-amqp", "amqp"),
    Program("kombu", "check_kombu.py", "kombu", "kombu"),
    Program("kombu, product amqp-router", "check_kombu.py", "kombu", "kombu", options=AS_ITSELF),
    Program("Celery", "check_celery.py", "celery", "celery"),
    Program("Celery, quorum queues", "check_celery.py", "celery", "celery", arguments=("quorum",)),
    Program("Flower", "check_flower.py", "load", "flower"),
    Program("rabbitpy", "check_rabbitpy.py", "rabbitpy", "rabbitpy"),
    Program("amqplib (Node)", "check_amqplib.js", package="amqplib"),
    Program("@cloudamqp/amqp-client (Node)", "check_cloudamqp.js", package="@cloudamqp/amqp-client"),
    Program("rascal (Node)", "check_rascal.js", package="rascal"),
    Program("amqp-tools (C)", "check_amqp_tools.py", "pika", debian=AMQP_TOOLS),
    Program("php-amqplib", "check_amqplib.php", debian=PHP),
    Program("Bunny (Ruby)", "check_bunny.rb", debian=RUBY),
    Program("Java client", "CheckJava.java", debian=JAVA),
    Program("amqp091-go", "check_amqp091.go", debian=GO_CLIENT),
    Program("Prometheus", "check_prometheus.py", "pika", "prometheus_client"),
)
