#!/bin/sh
# python.sh MODULE[=REQUIREMENT]...: prints a Python that has these modules: the one of .venv, or the one on the path. With INSTALL=yes it
# makes .venv and installs what is missing; else it says the commands that do. pip is asked for REQUIREMENT where it calls the module
# something else. Everything it does goes to stderr.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
modules= requirements=
for pair in "$@"; do
        modules="$modules${modules:+, }${pair%%=*}"
        requirements="$requirements ${pair#*=}"
done
for python in "$root/.venv/bin/python" python3; do
        if command -v "$python" > /dev/null 2>&1 && "$python" -c "import $modules" 2> /dev/null; then
                echo "$python"
                exit 0
        fi
done
if [ "${INSTALL:-no}" != yes ]; then
        echo "no Python here has all of: $modules" >&2
        echo "to install them: python3 -m venv .venv && .venv/bin/pip install$requirements" >&2
        echo "or set PYTHON to a Python that has them" >&2
        exit 1
fi
# shellcheck disable=SC2086 # a list of requirements
{
        if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
                "$root/tests/need.sh" no-such-command=python3-venv
        fi
        [ -x "$root/.venv/bin/python" ] || python3 -m venv "$root/.venv"
        "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check $requirements
} >&2 || {
        echo "could not make a Python with:$requirements; install them, or set PYTHON to a Python that has them" >&2
        exit 1
}
echo "$root/.venv/bin/python"
