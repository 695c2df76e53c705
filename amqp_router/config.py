"""Every option of the broker: type, default, unit, meaning.

Values come from a TOML file, then from the environment (``AMQP_ROUTER_`` and the option's name in capitals),
then from the command line; the later wins. The flags, their help and ``docs/configuration.md`` are made from
`Settings` by ``config_text``, so an option is added here and nowhere else. A key that no option has is an
error, as is a value that does not fit: the operator gets one line that names it (`ConfigError`).
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from pydantic.config import JsonDict

from amqp_router.nearest import did_you_mean

ENV_PREFIX = "AMQP_ROUTER_"
#: Variables that the build and ``compiled.py`` read, before there are settings.
BUILD_VARIABLES = {"AMQP_ROUTER_UNCOMPILED", "AMQP_ROUTER_REQUIRE_COMPILED"}
#: Names that Kubernetes gives every container when a service is called amqp-router.
KUBERNETES_VARIABLE = re.compile(
    r"AMQP_ROUTER_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)"
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZE_UNITS = ("bytes", "bytes or %")
SIZE_EXPECTED = "a number of bytes, or one with KiB, MiB or GiB"
SIZES = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": GIB}


class ConfigError(Exception):
    """A mistake of the operator. The text is one line: the option, where it was set, and what to do."""


def parse_bytes(value: object) -> object:
    """``"64MiB"`` to 67108864. Everything else is returned as it is, for the type's own check."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip(), re.IGNORECASE)
        if match and match[2].upper() in SIZES:
            return int(match[1]) * SIZES[match[2].upper()]
        raise ValueError(SIZE_EXPECTED)
    return value


Bytes = Annotated[int, BeforeValidator(parse_bytes)]


def parse_port(value: object) -> object:
    """``"none"`` to None. Everything else is returned as it is, for the type's own check."""
    if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
        return None
    if not isinstance(value, int | str) or (isinstance(value, str) and not value.strip().isdecimal()):
        raise ValueError("a port, or none")
    return value


Port = Annotated[int | None, BeforeValidator(parse_port)]


def parse_share(value: object) -> str:
    """``40%`` as it is; a size in bytes as text, by ``parse_bytes``."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?%", value.strip()):
        return value.strip()
    try:
        number = parse_bytes(value)
    except ValueError:
        raise ValueError(f"{SIZE_EXPECTED}, or a share of the memory like 40%") from None
    if not isinstance(number, int) or number < 16 * MIB:
        raise ValueError("at least 16MiB, or a share of the memory like 40%")
    return str(number)


BytesOrShare = Annotated[str, BeforeValidator(parse_share)]


def option(section: str, default: Any, unit: str, meaning: str, **limits: Any) -> Any:
    """One option; `limits` are pydantic's (``ge``, ``le``, ``pattern``)."""
    extra: JsonDict = {"section": section, "unit": unit}
    return Field(default, description=meaning, json_schema_extra=extra, validate_default=True, **limits)


_node = partial(option, "Node")
_first = partial(option, "First start")
_listener = partial(option, "Listener")
_tls = partial(option, "TLS for AMQP")
_admin = partial(option, "Admin")
_admin_tls = partial(option, "TLS for the admin port")
_connection = partial(option, "Connections")
_message = partial(option, "Messages and memory")
_log = partial(option, "Queue logs on disk")
_routing = partial(option, "Routing log")


class Settings(BaseModel):
    """All options. Frozen; the layers below get small dataclasses made from it.

    `load` fills it from file, environment and flags. Made directly, it has what it is given and the defaults.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_dir: Path = _node(
        Path("data"), "", "folder of the queue logs and definitions; the broker makes it if it is missing"
    )
    data_group_reads: bool = _node(
        False, "", "let the folder's group read the logs, for Spark; never definitions and sessions"
    )
    node_name: str = _node(
        "", "", "name of this node; by default router@ and the host's name", pattern=r"^([\w.-]+@[\w.-]+)?$"
    )
    ready_file: Path | None = _node(
        None, "", "JSON file that the broker writes once it serves: process id and addresses"
    )
    log_level: Literal["debug", "info", "warning", "error"] = _node(
        "info", "", "lowest severity that is logged; read again at SIGHUP"
    )
    log_format: Literal["text", "json"] = _node(
        "text", "", "form of the broker log on standard error; json is one object a line"
    )
    open_files: int = _node(
        65536, "files", "file descriptors to ask the system for; the log says how many it granted", ge=256
    )

    event_exchange_vhost: str = _node("/", "", "virtual host with amq.rabbitmq.event; empty for none")

    default_user: str = _first(
        "guest",
        "",
        "administrator that a start on an empty data directory makes; any but guest needs a password",
        min_length=1,
        max_length=255,
    )
    default_password_file: Path | None = _first(
        None, "", "file whose first line is the password of default_user; without it guest's is guest"
    )
    default_vhost: str = _first(
        "/", "", "virtual host that a start on an empty data directory makes", min_length=1, max_length=255
    )
    definitions: Path | None = _first(
        None, "", "file of definitions, also of RabbitMQ, that every start imports before clients are served"
    )
    definitions_strict: bool = _first(False, "", "do not start if anything in that file would be left out")

    bind: str = _listener(
        "127.0.0.1", "", "address to listen on; 0.0.0.0 or :: for every interface", min_length=1
    )
    amqp_port: Port = _listener(
        5672,
        "",
        "port for AMQP clients; 0 picks a free one, none is no listener without TLS. Needs amqps_certificate "
        "if it is none",
        ge=0,
        le=65535,
    )

    proxy_protocol_from: str = _listener(
        "",
        "",
        "proxies that begin each AMQP connection with a header of the PROXY protocol, versions 1 and 2: "
        "addresses or networks, with commas; from these addresses it is required, from others refused",
    )

    amqps_port: int = _tls(
        5671,
        "",
        "port for AMQP clients with TLS; 0 picks a free one. Needs amqps_certificate",
        ge=0,
        le=65535,
    )
    amqps_certificate: Path | None = _tls(
        None,
        "",
        "PEM file with the server's certificate, those of its issuers below; without it there is no TLS. "
        "Read again when it changes and at SIGHUP, as are all files of these options",
    )
    amqps_key: Path | None = _tls(
        None, "", "PEM file with the certificate's key; by default the certificate's file"
    )
    amqps_key_password_file: Path | None = _tls(
        None, "", "file whose first line is the password of the keys, also of those of amqps_sni"
    )
    amqps_ca: Path | None = _tls(
        None, "", "PEM file of the authorities whose client certificates are accepted"
    )
    amqps_crl: Path | None = _tls(
        None,
        "",
        "PEM file of revocation lists, one of each authority that issues clients' certificates: refuse a "
        "certificate that is revoked, or whose issuer's list is missing or has ended; needs "
        "amqps_verify = peer",
    )
    amqps_verify: Literal["none", "peer"] = _tls(
        "none", "", "peer: ask clients for a certificate, and refuse one that amqps_ca does not confirm"
    )
    amqps_require_certificate: bool = _tls(
        False, "", "refuse clients without a certificate; needs amqps_verify = peer"
    )
    amqps_min_version: Literal["1.2", "1.3"] = _tls("1.2", "", "oldest version of TLS that is spoken")
    amqps_sni: str = _tls(
        "",
        "",
        "certificates by the server name that a client asks for: NAME=CERTIFICATE:KEY, with commas; NAME may "
        "begin with *.",
    )
    amqps_login_from: Literal["none", "common_name", "distinguished_name"] = _tls(
        "none",
        "",
        "which name in a client's certificate is its user; with one, clients may log in by certificate alone "
        "(EXTERNAL). Needs amqps_verify = peer",
    )

    admin: bool = _admin(True, "", "serve the HTTP API and the pages")
    admin_bind: str = _admin("", "", "address for the HTTP API and the pages; by default the value of bind")
    admin_port: int = _admin(
        15672, "", "port for the HTTP API and the pages; 0 picks a free one", ge=0, le=65535
    )
    metrics_bind: str = _admin(
        "127.0.0.1", "", "address for Prometheus, which needs no login there", min_length=1
    )
    metrics_port: int = _admin(
        15692,
        "",
        "port for Prometheus (/metrics); 0 is off, /metrics on the admin port stays",
        ge=0,
        le=65535,
    )
    trusted_proxies: str = _admin(
        "", "", "proxies whose X-Forwarded-For names the client: addresses or networks, with commas"
    )

    admin_certificate: Path | None = _admin_tls(
        None, "", "PEM file with the server's certificate: the admin port then speaks HTTPS and no HTTP"
    )
    admin_key: Path | None = _admin_tls(None, "", "as amqps_key")
    admin_key_password_file: Path | None = _admin_tls(None, "", "as amqps_key_password_file")
    admin_ca: Path | None = _admin_tls(None, "", "as amqps_ca")
    admin_crl: Path | None = _admin_tls(None, "", "as amqps_crl")
    admin_verify: Literal["none", "peer"] = _admin_tls("none", "", "as amqps_verify")
    admin_require_certificate: bool = _admin_tls(
        False, "", "refuse clients without a certificate; the name and password are needed all the same"
    )
    admin_min_version: Literal["1.2", "1.3"] = _admin_tls("1.2", "", "as amqps_min_version")
    admin_sni: str = _admin_tls("", "", "as amqps_sni")

    connections_max: int = _connection(
        0, "connections", "most connections of clients; 0: as many as file descriptors allow", ge=0
    )
    channel_max: int = _connection(2047, "channels", "channels one connection may have open", ge=1, le=65535)
    frame_max: Bytes = _connection(131072, "bytes", "largest frame offered to clients", ge=4096, le=16 * MIB)
    heartbeat_s: int = _connection(
        60, "s", "heartbeat interval offered to clients; 0 offers none", ge=0, le=65535
    )
    handshake_timeout_s: float = _connection(
        10.0, "s", "time from connect to an open virtual host", gt=0, le=3600
    )
    pre_login_bytes_max: Bytes = _connection(
        4096, "bytes", "largest frame taken from a client that has not logged in", ge=4096
    )
    output_bytes_max: Bytes = _connection(
        4 * MIB,
        "bytes",
        "most output that waits for a client; beyond, the broker does not read from that client "
        "(64 KiB while memory is scarce)",
        ge=64 * KIB,
    )
    guest_loopback_only: bool = _connection(True, "", "let the user guest log in from this machine only")
    product: str = _connection(
        "RabbitMQ", "", "product name that clients see; kombu and Celery stall with any other", min_length=1
    )
    product_version: str = _connection(
        "3.10.8", "", "version that clients see, of the product whose ways they are to use", min_length=1
    )
    platform: str = _connection("", "", "platform that clients see; empty: this broker and its version")
    information: str = _connection("", "", "text that clients see beside the platform; empty: the licence")

    message_bytes_max: Bytes = _message(
        128 * MIB, "bytes", "largest message body; a larger one closes the channel (311)", ge=1
    )
    unsynced_bytes_max: Bytes = _message(
        2 * MIB,
        "bytes",
        "most bytes that one connection published or declared and the disk does not have yet; beyond, the "
        "broker does not read from it",
        ge=64 * KIB,
    )
    memory_limit: BytesOrShare = _message(
        "40%",
        "bytes or %",
        "most memory that clients can make the broker use, in bytes or % of the memory of the machine or "
        "control group; above 90 % of it publishers wait (alarm memory)",
    )
    memory_budget: Bytes = _message(
        96 * MIB,
        "bytes",
        "most memory for the contents of waiting messages, all queues together; the rest waits on disk",
        ge=MIB,
    )

    segment_bytes: Bytes = _log(
        64 * MIB, "bytes", "size at which a log begins a new segment file", ge=64 * KIB, le=GIB
    )
    disk_free_limit: Bytes = _log(
        0,
        "bytes",
        "free disk space below which publishers wait (alarm disk), until there is 1.2 times as much; "
        "0: two segments and 16 MiB, or 5 % of a smaller file system",
    )
    settle_sync_ms: int = _log(200, "ms", "longest time until acknowledgements are on disk", ge=1, le=60_000)

    routing_log: bool = _routing(True, "", "record every publish and its queues, without the body")
    routing_partitions: int = _routing(
        4, "partitions", "partitions of each virtual host's routing log; cannot change later", ge=1, le=64
    )
    routing_log_bytes: Bytes = _routing(
        GIB, "bytes", "most disk for all routing logs together; the oldest segments are removed", ge=16 * MIB
    )
    routing_log_days: float = _routing(7.0, "days", "longest time that routing logs are kept", gt=0)

    @field_validator("trusted_proxies", "proxy_protocol_from")
    @classmethod
    def _check_proxies(cls, value: str) -> str:
        for name in _names(value):
            ipaddress.ip_network(name, strict=False)
        return value

    @property
    def proxies(self) -> tuple[str, ...]:
        """The trusted proxies, one by one."""
        return _names(self.trusted_proxies)

    @property
    def amqp_proxies(self) -> tuple[str, ...]:
        """The proxies that speak the PROXY protocol, one by one."""
        return _names(self.proxy_protocol_from)

    @property
    def node(self) -> str:
        """The node's name; by default ``router@`` and the host's name."""
        return self.node_name or f"router@{socket.gethostname().partition('.')[0] or 'localhost'}"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def flag(name: str) -> str:
    """``--amqp-port`` for ``amqp_port``."""
    return "--" + name.replace("_", "-")


def env_name(name: str) -> str:
    """``AMQP_ROUTER_AMQP_PORT`` for ``amqp_port``."""
    return ENV_PREFIX + name.upper()


def load(flags: Mapping[str, Any] | None = None, config: Path | None = None) -> Settings:
    """The settings of file `config`, the environment and `flags` (option name to text, only those given).

    Raises:
        ConfigError: an unknown key, a value that does not fit, or a file that cannot be read.
    """
    flags = dict(flags or {})
    if config is None and os.environ.get(env_name("config")):
        config = Path(os.environ[env_name("config")])
    file = _read_file(config) if config else {}
    for name in file.keys() - Settings.model_fields.keys():
        raise ConfigError(f"{config}: unknown option {name!r}{_suggestion(name)}")
    _check_environment()
    try:
        return Settings(**{**file, **_from_environment(), **flags})
    except ValidationError as error:
        raise ConfigError(_explain(error, flags, config)) from None


def changed(old: Settings, new: Settings) -> list[str]:
    """The names of the options whose values differ."""
    return [name for name in Settings.model_fields if getattr(old, name) != getattr(new, name)]


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name another with --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML ({error})") from None


def _from_environment() -> dict[str, str]:
    """The options that the environment sets, in capitals or not. An empty variable counts as none."""
    given = {name.upper(): value for name, value in os.environ.items() if value}
    return {name: given[env_name(name)] for name in Settings.model_fields if env_name(name) in given}


def _check_environment() -> None:
    known = {env_name(name) for name in [*Settings.model_fields, "config"]} | BUILD_VARIABLES
    for name in sorted(os.environ):
        if name.startswith(ENV_PREFIX) and name not in known and not KUBERNETES_VARIABLE.fullmatch(name):
            option_name = name.removeprefix(ENV_PREFIX).lower()
            raise ConfigError(f"environment: unknown option {name}{_suggestion(option_name, env_name)}")


def _suggestion(name: str, spell: Callable[[str], str] = str) -> str:
    hint = did_you_mean(name, Settings.model_fields, spell)
    return f"; {hint}{' ' if hint else ''}`amqp-router options` lists them all"


#: pydantic's words for wrong types, said shorter.
_PLAIN = {
    "bool_parsing": "should be true or false",
    "int_parsing": "should be a whole number",
    "float_parsing": "should be a number",
}


def _explain(error: ValidationError, flags: Mapping[str, Any], config: Path | None) -> str:
    """One line for the first error that pydantic found: where the value was set, and why it is refused."""
    first = error.errors()[0]
    name = str(first["loc"][0])
    if name in flags:
        place = flag(name)
    elif env_name(name) in os.environ:
        place = f"environment: {env_name(name)}"
    else:
        place = f"{config}: {name}"
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    reason = _PLAIN.get(first["type"], reason)
    return f"{place}: {first['input']!r} is not valid: {reason}; `amqp-router options` lists the options"
