#!/bin/sh
# sh tools/again.sh COMMAND...: runs a command that needs the network; if it fails, up to three times more.
# An index or a mirror that is away for a minute must not end a run of all tests.
for pause in ${AGAIN_PAUSES-10 30 60} end; do
    "$@"
    status=$?
    if [ "$status" -eq 0 ] || [ "$pause" = end ]; then exit "$status"; fi
    echo "This failed: $*. Trying again in $pause s, as the network may have been at fault ..." >&2
    sleep "$pause"
done
