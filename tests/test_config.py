"""Options: three sources in rising order, and one line for an invalid value."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from pydantic import ValidationError

from amqp_router import config, config_text

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _no_options_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*config.Settings.model_fields, "config"]:
        monkeypatch.delenv(config.env_name(name), raising=False)


def test_file_then_environment_then_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.toml"
    file.write_text('amqp_port = 1\nheartbeat_s = 1\nnode_name = "a@b"\n')
    monkeypatch.setenv("AMQP_ROUTER_AMQP_PORT", "2")
    monkeypatch.setenv("AMQP_ROUTER_HEARTBEAT_S", "2")
    settings = config.load({"amqp_port": "3"}, file)
    assert (settings.amqp_port, settings.heartbeat_s, settings.node_name) == (3, 2, "a@b")
    assert settings.channel_max == 2047


def test_file_named_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.toml"
    file.write_text("amqp_port = 7\n")
    monkeypatch.setenv("AMQP_ROUTER_CONFIG", str(file))
    assert config.load().amqp_port == 7


@pytest.mark.parametrize(
    ("text", "size"), [("64MiB", 64 << 20), ("64 kib", 64 << 10), ("65536", 65536), ("1GiB", 1 << 30)]
)
def test_sizes_with_units(text: str, size: int) -> None:
    assert config.load({"segment_bytes": text}).segment_bytes == size


def test_size_with_unit_in_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('memory_budget = "8MiB"\nsegment_bytes = 1048576\n')
    settings = config.load(config=file)
    assert (settings.memory_budget, settings.segment_bytes) == (8 << 20, 1 << 20)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"amqp_port": "70000"}, "--amqp-port: '70000'"),
        ({"amqp_port": "x"}, "--amqp-port: 'x'"),
        ({"frame_max": "4000"}, "--frame-max: 4000"),
        ({"frame_max": "64MB"}, "KiB, MiB or GiB"),
        ({"log_level": "loud"}, "--log-level: 'loud'"),
        ({"node_name": "no host"}, "--node-name: 'no host'"),
        ({"guest_loopback_only": "perhaps"}, "--guest-loopback-only: 'perhaps'"),
    ],
)
def test_bad_flag_is_named_in_one_line(flags: dict[str, str], says: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        config.load(flags)
    text = str(caught.value)
    assert says in text
    assert "\n" not in text
    assert "amqp-router options" in text


def test_bad_value_in_file_names_file_and_key(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("heartbeat_s = -1\n")
    with pytest.raises(config.ConfigError, match=r"c\.toml: heartbeat_s: -1 "):
        config.load(config=file)


def test_bad_value_in_environment_names_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQP_ROUTER_HEARTBEAT_S", "often")
    with pytest.raises(config.ConfigError, match="environment: AMQP_ROUTER_HEARTBEAT_S: 'often'"):
        config.load()


def test_variables_may_be_empty_or_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQP_ROUTER_HEARTBEAT_S", "")
    monkeypatch.setenv("amqp_router_channel_max", "7")
    settings = config.load()
    assert (settings.heartbeat_s, settings.channel_max) == (config.Settings().heartbeat_s, 7)


def test_unknown_key_in_file_suggests(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("amqp_prot = 1\n")
    with pytest.raises(
        config.ConfigError, match=r"c\.toml: unknown option 'amqp_prot'; did you mean amqp_port"
    ):
        config.load(config=file)


def test_unknown_variable_suggests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQP_ROUTER_DATADIR", "x")
    with pytest.raises(config.ConfigError, match="AMQP_ROUTER_DATADIR; did you mean AMQP_ROUTER_DATA_DIR"):
        config.load()


def test_variables_of_kubernetes_and_of_the_build_are_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVICE_HOST", "SERVICE_PORT_AMQP", "PORT", "PORT_5672_TCP_ADDR", "UNCOMPILED"):
        monkeypatch.setenv("AMQP_ROUTER_" + name, "0")
    config.load()


@pytest.mark.parametrize(
    ("content", "says"), [(None, "cannot be read"), ("a =", "is not TOML"), (b"\xff", "is not TOML")]
)
def test_unreadable_file(tmp_path: Path, content: str | bytes | None, says: str) -> None:
    file = tmp_path / "c.toml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(config.ConfigError, match=f"c.toml: {says}"):
        config.load(config=file)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        config.load().amqp_port = 1


def test_default_node_name_has_the_host() -> None:
    assert config.load().node.startswith("router@")
    assert config.load({"node_name": "a@b"}).node == "a@b"


def test_every_option_has_a_flag_with_help() -> None:
    parser = argparse.ArgumentParser()
    config_text.add_flags(parser)
    text = " ".join(parser.format_help().split())
    for _, name, info in config_text.options():
        assert config.flag(name) in text
        assert info.description
        assert " ".join(info.description.split()) in text


def test_flags_not_given_stay_out() -> None:
    parser = argparse.ArgumentParser()
    config_text.add_flags(parser)
    assert vars(parser.parse_args(["--amqp-port", "0"])) == {"amqp_port": "0"}


def test_documentation_is_what_the_options_say() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == config_text.markdown(), (
        "make it again: amqp-router options --markdown > docs/configuration.md"
    )


def test_trusted_proxies_are_addresses_and_networks() -> None:
    assert config.load({"trusted_proxies": "10.0.0.0/8, ::1"}).proxies == ("10.0.0.0/8", "::1")
    assert config.load({}).proxies == ()
    with pytest.raises(config.ConfigError, match=r"^--trusted-proxies: 'proxy\.example' is not valid"):
        config.load({"trusted_proxies": "proxy.example"})
