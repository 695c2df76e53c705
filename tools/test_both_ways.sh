#!/bin/sh
# sh tools/test_both_ways.sh PYTHON DIR...: every test, compiled, and beside them those in DIR from source.
#
# Both need one processor most of the time, so two take a quarter less time together. The result of the tests
# from source stands before the summary of the others (tests/conftest.py).
python=$1
shift
work=$(mktemp -d)
trap 'kill "$beside" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "Every test, compiled; those in $* also from source, at the same time."
(
    AMQP_ROUTER_UNCOMPILED=1 "$python" -m pytest -q -p no:cacheprovider "$@" >"$work/output" 2>&1
    echo $? >"$work/status.new" && mv "$work/status.new" "$work/status"
) &
beside=$!
AMQP_ROUTER_TESTS_BESIDE="$work" "$python" -m pytest
status=$?
wait "$beside"
read -r from_source <"$work/status" || from_source=1
[ "$status" -ne 0 ] || status=$from_source
exit "$status"
