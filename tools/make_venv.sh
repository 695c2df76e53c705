#!/bin/sh
# Makes a virtual environment in $1 with the first Python >= 3.11 of $PYTHON, python3, python3.13 ... 3.11.
# Debian splits venv's pip into the package python3-venv: as root it is installed here, otherwise named.
set -eu
venv=$1

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$name"; then command -v "$name"; return; fi
    done
}

apt_install() {
    echo "Missing here: $*. Installing with apt-get, as this is Debian and you are root."
    export DEBIAN_FRONTEND=noninteractive
    sh "$(dirname "$0")/again.sh" sh -c '
        apt-get install -y -q "$@" >/dev/null 2>&1 ||
            { apt-get update -q >/dev/null && apt-get install -y -q "$@" >/dev/null; }
    ' apt-get "$@"
}

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

python=$(find_python)
if [ -z "$python" ] && can_apt; then
    apt_install python3 python3-venv
    python=$(find_python)
fi
if [ -z "$python" ]; then
    echo "Python 3.11 or newer was not found. Install it (Debian: sudo apt-get install python3 python3-venv)," >&2
    echo "or name one: make PYTHON=/path/to/python3" >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if can_apt; then
        apt_install "python$version-venv"
    else
        echo "$python cannot make virtual environments: its venv module lacks pip." >&2
        echo "Install it and try again: sudo apt-get install python$version-venv" >&2
        exit 1
    fi
fi

echo "Making $venv with $("$python" --version) ..."
"$python" -m venv "$venv"
