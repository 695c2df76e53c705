#!/bin/sh
# sh tools/test_both_ways.sh PYTHON DIR...: every test compiled, and those in DIR from source as well.
#
# Those in DIR run beside the others, first from source and then compiled: both need one processor most of the
# time. Those in DIR give way, as they know no clock but their own: among the others are browsers, brokers and
# Spark, which gives a Python worker ten seconds to start. Their results stand before the summary of the
# others (tests/conftest.py).
python=$1
shift
work=$(mktemp -d)
trap 'kill "$beside" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "At the same time: those in $*, from source and then compiled; and all others, compiled."
(
    AMQP_ROUTER_UNCOMPILED=1 nice -n 10 "$python" -m pytest -q -p no:cacheprovider "$@" >"$work/from source" 2>&1
    from_source=$?
    nice -n 10 "$python" -m pytest -q -p no:cacheprovider "$@" >"$work/compiled" 2>&1
    echo "$from_source $?" >"$work/status.new" && mv "$work/status.new" "$work/status"
) &
beside=$!
for directory in "$@"; do
    set -- "$@" "--ignore=$directory"
    shift
done
AMQP_ROUTER_TESTS_BESIDE="$work" "$python" -m pytest "$@"
status=$?
wait "$beside"
[ "$(cat "$work/status")" = "0 0" ] || [ "$status" -ne 0 ] || status=1
exit "$status"
