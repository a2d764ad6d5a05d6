#!/bin/sh
# check_pythons.sh WHEEL PYTHON...: the wheel in a new environment of each Python, with pip and nothing else; then NumPy, and the package's
# tests of arrays, expressions and the command against it. Names each Python, its version, NumPy's, and what was installed.
set -eu
wheel=$(readlink -f "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for python in "$@"; do
        rm -rf "$work/env"
        "$python" -m venv "$work/env"
        bin=$work/env/bin
        "$bin/pip" install --quiet --no-index --disable-pip-version-check "$wheel"
        "$bin/scanfold" info > "$work/info" && "$bin/python" -m scanfold info | cmp - "$work/info"
        "$bin/pip" install --quiet --disable-pip-version-check numpy pytest hypothesis 2> /dev/null
        (cd "$here/python" && "$bin/python" -m pytest -q -p no:cacheprovider test_arrays.py test_run.py test_command.py) > "$work/log" 2>&1 ||
                { cat "$work/log"; echo "check_pythons: $python fails" >&2; exit 1; }
        "$bin/python" -c 'import numpy, platform, scanfold
print("check_pythons:", platform.python_implementation(), platform.python_version(), "NumPy", numpy.__version__, end=": ")'
        tail -n 1 "$work/log"
done
