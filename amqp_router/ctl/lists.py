"""The verbs that list objects.

Source: rabbitmqctl(8), whose columns have the same names where the HTTP API has them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from amqp_router.ctl.client import Client, part
from amqp_router.ctl.output import pick, rows_text, show
from amqp_router.ctl.verb import VHOST, Argument, Verb, argument, checked


@dataclass(frozen=True)
class Listing:
    """A list of the API. ``path`` gets the virtual host, if the list has one, and other arguments."""

    name: str
    help: str
    path: str
    shown: tuple[str, ...]
    others: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    examples: tuple[str, ...] = ()
    #: rabbitmqctl's name of a column, and the API's.
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that may be asked for."""
        return (*self.shown, *self.others)

    def verb(self) -> Verb:
        """The verb that shows it."""
        chosen = argument(
            "columns",
            nargs="*",
            metavar="COLUMN",
            help=f"of {', '.join(self.columns)} (default: {' '.join(self.shown)})",
        )
        vhost = (VHOST,) if "{vhost}" in self.path else ()
        return Verb(
            self.name, self.help, self._run, (*vhost, *self.arguments, chosen), self.examples, self.columns
        )

    def _run(self, client: Client, args: argparse.Namespace) -> int:
        columns = checked(args.columns or self.shown, self.columns, "column")
        names = {name: part(value) for name, value in vars(args).items() if isinstance(value, str)}
        found = client.get(self.path.format_map(names))
        rows = [found] if isinstance(found, dict) else found
        for row in rows:
            for name, source in self.renamed:
                row[name] = pick(row, source)
            # rabbitmqctl shows a message's details as a number.
            if isinstance(row.get("client_properties"), dict):
                row.setdefault("client", row["client_properties"].get("connection_name", ""))
        show(rows_text(rows, columns, args.format))
        return 0


LISTINGS = (
    Listing(
        "list_queues",
        "queues of a virtual host",
        "/api/queues/{vhost}",
        ("name", "messages", "messages_ready", "messages_unacknowledged", "consumers", "state"),
        (
            "arguments",
            "auto_delete",
            "consumer_capacity",
            "consumer_utilisation",
            "durable",
            "effective_policy_definition",
            "exclusive",
            "exclusive_consumer_tag",
            "idle_since",
            "memory",
            "message_stats.ack",
            "message_stats.deliver_get",
            "message_stats.publish",
            "messages_details.rate",
            "messages_paged_out",
            "messages_persistent",
            "messages_ram",
            "node",
            "operator_policy",
            "policy",
            "single_active_consumer_tag",
            "type",
            "vhost",
        ),
        examples=(
            "amqp-router ctl list_queues",
            "amqp-router ctl list_queues --vhost shop name messages consumers --format csv",
        ),
    ),
    Listing(
        "list_exchanges",
        "exchanges of a virtual host",
        "/api/exchanges/{vhost}",
        ("name", "type", "durable"),
        (
            "arguments",
            "auto_delete",
            "internal",
            "message_stats.publish_in",
            "message_stats.publish_out",
            "policy",
            "vhost",
        ),
        examples=("amqp-router ctl list_exchanges name type policy",),
    ),
    Listing(
        "list_bindings",
        "bindings of a virtual host",
        "/api/bindings/{vhost}",
        ("source_name", "destination_name", "destination_kind", "routing_key", "arguments"),
        ("properties_key", "vhost"),
        renamed=(
            ("source_name", "source"),
            ("destination_name", "destination"),
            ("destination_kind", "destination_type"),
        ),
        examples=("amqp-router ctl list_bindings --vhost shop source_name routing_key destination_name",),
    ),
    Listing(
        "list_connections",
        "connections of clients",
        "/api/connections",
        ("name", "user", "vhost", "state", "channels", "client"),
        (
            "auth_mechanism",
            "channel_max",
            "client_properties",
            "connected_at",
            "frame_max",
            "host",
            "node",
            "peer_host",
            "peer_port",
            "port",
            "protocol",
            "recv_cnt",
            "recv_oct",
            "recv_oct_details.rate",
            "send_cnt",
            "send_oct",
            "send_oct_details.rate",
            "send_pend",
            "ssl",
            "timeout",
        ),
        examples=("amqp-router ctl list_connections name client recv_oct send_oct",),
    ),
    Listing(
        "list_channels",
        "channels of clients",
        "/api/channels",
        ("name", "user", "vhost", "consumer_count", "messages_unacknowledged", "prefetch_count"),
        (
            "acks_uncommitted",
            "confirm",
            "connection_details.name",
            "global_prefetch_count",
            "messages_uncommitted",
            "messages_unconfirmed",
            "node",
            "number",
            "state",
            "transactional",
        ),
        examples=("amqp-router ctl list_channels name messages_unacknowledged",),
    ),
    Listing(
        "list_consumers",
        "consumers of a virtual host",
        "/api/consumers/{vhost}",
        ("queue_name", "channel", "consumer_tag", "ack_required", "prefetch_count", "active"),
        ("activity_status", "arguments", "exclusive"),
        renamed=(("queue_name", "queue.name"), ("channel", "channel_details.name")),
        examples=("amqp-router ctl list_consumers queue_name consumer_tag active",),
    ),
    Listing(
        "list_users",
        "users and their tags",
        "/api/users",
        ("user", "tags"),
        ("hashing_algorithm", "limits"),
        renamed=(("user", "name"),),
        examples=("amqp-router ctl list_users",),
    ),
    Listing(
        "list_vhosts",
        "virtual hosts",
        "/api/vhosts",
        ("name",),
        (
            "default_queue_type",
            "description",
            "messages",
            "messages_ready",
            "messages_unacknowledged",
            "tags",
            "tracing",
        ),
        examples=("amqp-router ctl list_vhosts name messages",),
    ),
    Listing(
        "list_permissions",
        "permissions in a virtual host",
        "/api/vhosts/{vhost}/permissions",
        ("user", "configure", "write", "read"),
        ("vhost",),
        examples=("amqp-router ctl list_permissions --vhost shop",),
    ),
    Listing(
        "list_user_permissions",
        "permissions of a user in all virtual hosts",
        "/api/users/{user}/permissions",
        ("vhost", "configure", "write", "read"),
        ("user",),
        (argument("user", metavar="USER", help="name of the user"),),
        examples=("amqp-router ctl list_user_permissions alice",),
    ),
    Listing(
        "list_topic_permissions",
        "topic permissions in a virtual host",
        "/api/vhosts/{vhost}/topic-permissions",
        ("user", "exchange", "write", "read"),
        ("vhost",),
        examples=("amqp-router ctl list_topic_permissions",),
    ),
    Listing(
        "list_policies",
        "policies of a virtual host",
        "/api/policies/{vhost}",
        ("name", "pattern", "apply-to", "definition", "priority"),
        ("vhost",),
        examples=("amqp-router ctl list_policies --format json",),
    ),
    Listing(
        "list_operator_policies",
        "operator policies of a virtual host",
        "/api/operator-policies/{vhost}",
        ("name", "pattern", "apply-to", "definition", "priority"),
        ("vhost",),
        examples=("amqp-router ctl list_operator_policies",),
    ),
    Listing(
        "list_vhost_limits",
        "limits of virtual hosts",
        "/api/vhost-limits",
        ("vhost", "value"),
        examples=("amqp-router ctl list_vhost_limits",),
    ),
    Listing(
        "list_user_limits",
        "limits of users",
        "/api/user-limits",
        ("user", "value"),
        examples=("amqp-router ctl list_user_limits",),
    ),
)

VERBS = tuple(listing.verb() for listing in LISTINGS)
