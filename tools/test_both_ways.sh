#!/bin/sh
# sh tools/test_both_ways.sh PYTHON DIR...: every test compiled, and those in DIR from source as well.
#
# Three processes, because each waits now and then and two processors shall not:
# - those in DIR, first from source and then compiled. They give way, as they know no clock but their own: among
#   the others are browsers, brokers and Spark, which gives a Python worker ten seconds to start.
# - those in $apart, which wait for Spark and for browsers, and then those in $observed, what clients observe.
# - the others. What came of the former stands before the summary of these (tests/conftest.py).
apart="tests/spark_analytics tests/admin_ui/ui"
observed="tests/interop"
# In those in DIR, what has nothing compiled and is the same from source (tests/test_both_ways.py).
once="tests/persistence/definitions tests/vhosts/queues/ready/test_heaps.py tests/vhosts/test_patterns.py"
python=$1
shift
work=$(mktemp -d)
trap 'kill "$beside" "$waiting" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "At the same time: those in $*, from source and then compiled; those in $apart $observed; and all others, compiled."

# tests NAME COMMAND...: what the command says and its exit code, which is there when all is said.
tests() {
    name=$1
    shift
    "$@" >"$work/$name" 2>&1
    echo $? >"$work/$name.new" && mv "$work/$name.new" "$work/$name.code"
}

beside_once=
for each in $once; do
    beside_once="$beside_once --ignore=$each"
done
(
    # shellcheck disable=SC2086 # several arguments
    tests source env AMQP_ROUTER_UNCOMPILED=1 nice -n 5 "$python" -m pytest -q -p no:cacheprovider $beside_once "$@"
    tests compiled nice -n 5 "$python" -m pytest -q -p no:cacheprovider "$@"
) &
beside=$!
(
    # shellcheck disable=SC2086 # several folders
    tests apart "$python" -m pytest -q -p no:cacheprovider $apart
    # shellcheck disable=SC2086 # several folders
    tests observed "$python" -m pytest -q -p no:cacheprovider $observed
) &
waiting=$!
ignored=
for directory in "$@" $apart $observed; do
    ignored="$ignored --ignore=$directory"
done
# shellcheck disable=SC2086 # several arguments
AMQP_ROUTER_TESTS_BESIDE="$work" "$python" -m pytest $ignored
status=$?
wait "$beside" "$waiting"
for name in source compiled apart observed; do
    [ "$(cat "$work/$name.code")" = 0 ] || [ "$status" -ne 0 ] || status=1
done
exit "$status"
