#!/bin/sh
# python.sh MODULE...: prints a Python that has these modules: the one of .venv, or the one on the path. With INSTALL=yes it
# makes .venv and installs what is missing; else it says the commands that do. Everything it does goes to stderr.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

# What pip calls a module, where that is not the module's own name, and the one version that all callers get, where there is one.
requirement() {
        case $1 in
        torch) echo torch==2.13.0 ;;
        # CUDA 13.0's: the compiler that the numbers of registers were tuned with. Later ones may use others.
        nvidia.cu13) echo nvidia-cuda-nvrtc==13.0.88 ;;
        material) echo mkdocs-material ;;
        scikit_build_core) echo scikit-build-core ;;
        array_api_strict) echo array-api-strict ;;
        *) echo "$1" ;;
        esac
}

modules= requirements=
for module in "$@"; do
        modules="$modules${modules:+, }$module"
        requirements="$requirements $(requirement "$module")"
done

# One at a time: two pips in one environment leave halves of two versions behind, and a module that one of them is writing can
# already be imported.
mkdir -p "$root/build"
exec 9> "$root/build/python.lock"
flock 9

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
# Of torch's thousands of modules few are imported; Python compiles those itself.
# shellcheck disable=SC2086 # a list of requirements
{
        if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
                "$root/tests/need.sh" no-such-command=python3-venv
        fi
        [ -x "$root/.venv/bin/python" ] || python3 -m venv "$root/.venv"
        "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile $requirements
} >&2 || {
        echo "could not make a Python with:$requirements; install them, or set PYTHON to a Python that has them" >&2
        exit 1
}
echo "$root/.venv/bin/python"
