#!/bin/sh
# What the tests need beside Python packages: a browser, strace, the shells zsh and fish, Java. $1 is the environment's Python.
# As root on Debian what is missing is installed with apt-get; elsewhere it is named, and its tests are skipped.
set -eu
python=$1

missing=
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || missing="$missing chromium"
for name in strace zsh fish; do
    command -v "$name" >/dev/null 2>&1 || missing="$missing $name"
done
# The program behind Playwright is linked to it.
if command -v ldconfig >/dev/null 2>&1 && ! ldconfig -p | grep -q libatomic.so.1; then
    missing="$missing libatomic1"
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Missing for the tests:$missing. Installing with apt-get, as this is Debian and you are root ..."
        export DEBIAN_FRONTEND=noninteractive
        # shellcheck disable=SC2086 - a list of names
        sh "$(dirname "$0")/again.sh" sh -c '
            apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1 ||
                { apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends "$@" >/dev/null; }
        ' apt-get $missing ||
            echo "apt-get could not install:$missing; the tests that need them are skipped."
    else
        echo "Missing for some tests, which are skipped:$missing (Debian: sudo apt-get install$missing)"
    fi
fi
sh "$(dirname "$0")/again.sh" "$python" -m spark_analytics.java || echo "The tests that need Spark will fail without Java."
