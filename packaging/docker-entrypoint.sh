#!/bin/sh
# Start of the image: RabbitMQ's variables of the first start become ours, then amqp-router runs.
#   RABBITMQ_DEFAULT_USER, RABBITMQ_DEFAULT_PASS, RABBITMQ_DEFAULT_VHOST    used if the data directory is empty
set -eu

if [ -n "${RABBITMQ_DEFAULT_USER:-}" ]; then
    export AMQP_ROUTER_DEFAULT_USER="$RABBITMQ_DEFAULT_USER"
fi
if [ -n "${RABBITMQ_DEFAULT_VHOST:-}" ]; then
    export AMQP_ROUTER_DEFAULT_VHOST="$RABBITMQ_DEFAULT_VHOST"
fi
if [ -n "${RABBITMQ_DEFAULT_PASS:-}" ]; then
    # A file, because options are shown (`ctl environment`); not in the volume, so that a backup has none.
    umask 077
    file=$(mktemp)
    printf '%s\n' "$RABBITMQ_DEFAULT_PASS" > "$file"
    export AMQP_ROUTER_DEFAULT_PASSWORD_FILE="$file"
elif [ -n "${RABBITMQ_DEFAULT_USER:-}" ] && [ -z "${AMQP_ROUTER_DEFAULT_PASSWORD_FILE:-}" ]; then
    echo "RABBITMQ_DEFAULT_USER needs RABBITMQ_DEFAULT_PASS" >&2
    exit 2
fi
unset RABBITMQ_DEFAULT_PASS
exec amqp-router "$@"
