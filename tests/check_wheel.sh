#!/bin/sh
# check_wheel.sh PYTHON FOLDER: the source distribution and the wheel, built with PYTHON, which has
# pip, build, scikit-build-core and NumPy; then the wheel alone in a new environment, where it must import and
# add, and where the command line must be on the path.
set -eu
python=$1 folder=$2
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$root"
fail() { echo "check_wheel: $1" >&2; exit 1; }
"$python" -m build --no-isolation --sdist --outdir "$folder" .
# The wheel is built of what the source distribution has, as far from its sources as build/gcc is from these and by the same make: where that was compiled with
# ccache, all is there already. Elsewhere one instruction set, not optimised, is enough to see that the parts are all there.
mkdir "$folder/tree"
tar xzf "$folder"/*.tar.gz -C "$folder/tree" --strip-components=1
set -- -C cmake.define.SCANFOLD_PORTABLE_ONLY=ON -C cmake.build-type=Debug -C cmake.define.CMAKE_C_FLAGS_DEBUG=-O0
[ -z "${CMAKE_C_COMPILER_LAUNCHER:-}" ] || set -- -C cmake.define.SCANFOLD_WERROR=ON -C cmake.define.SCANFOLD_NATIVE=OFF
CC=${CC:-cc} CMAKE_GENERATOR="Unix Makefiles" "$python" -m build --no-isolation --wheel --outdir "$folder" -C build-dir="$folder/tree/build/wheel" "$@" "$folder/tree"
cd "$folder"
# Sources, and nothing that was built from them or beside them.
junk=$(tar tzf ./*.tar.gz | grep -v -E '^[^/]*/((cli|cmake|include|python|src)/|[^/]*$)' || true)
junk=$junk$(tar tzf ./*.tar.gz | grep -E '\.(so|o|a|pyc)$|dist-info/' || true)
[ -z "$junk" ] || fail "the source distribution has $junk"
case $(echo *.whl) in
*-cp39-abi3-*) ;;
*) echo "the wheel is $(echo *.whl); it must be for cp39-abi3" >&2; exit 1 ;;
esac
# Nothing but the wheel is installed there; of NumPy, which the lines below add with, links to PYTHON's will do.
"$python" -m venv --without-pip clean
"$python" -m pip --python clean/bin/python install --quiet --disable-pip-version-check --no-compile --no-index ./*.whl
ln -s "$("$python" -c 'import numpy, os; print(os.path.dirname(numpy.__file__))')"* clean/lib/python*/site-packages
clean/bin/python - <<'END'
import numpy, scanfold
x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
assert scanfold.cumsum(x, axis=1, reverse=True).tolist() == [[3, 3, 2], [12, 9, 5]]
assert scanfold.sum(x, axis=(0, 1)).item() == 15

# What tests in the source tree cannot show: that the wheel has all files, and the entry point that
# torch.compile(backend="scanfold") looks up.
import importlib.metadata, os
folder = os.path.dirname(scanfold.__file__)
parts = "__init__.pyi", "torch.pyi", "py.typed", "torch.py", "_compile.py", "bench.py", "report.html", "bin/scanfold"
missing = [name for name in parts if not os.path.exists(os.path.join(folder, name))]
assert not missing, f"the wheel has no {', '.join(missing)}"
points = [(e.group, e.name, e.value) for e in importlib.metadata.distribution("scanfold").entry_points]
assert ("torch_dynamo_backends", "scanfold", "scanfold._compile:backend") in points, f"the wheel's entry points are {points}"
print("scanfold", scanfold.__version__, "from", scanfold.__file__)
numpy.save("x.npy", x)
END

bin=$(cd clean/bin && pwd)
# This wheel could travel. What pip builds without being told is for this machine: its best instruction set, and portable kernels in a hurry.
if [ -n "${CMAKE_C_COMPILER_LAUNCHER:-}" ]; then
        "$root/tests/check_travels.sh" "$bin/scanfold"
        grep -q '^SCANFOLD_NATIVE = "ON"' "$folder/tree/pyproject.toml" || fail "pip builds for other machines too"
        cmake -S "$folder/tree" -B native -DSCANFOLD_NATIVE=ON > native.log || fail "SCANFOLD_NATIVE: $(cat native.log)"
        best=$("$bin/scanfold" info | sed -n 's/^instructions.* \([a-z0-9]*\) (chosen).*/\1/p')
        built=$(find native -name build.make -exec grep -h -o 'cpu/isa_[a-z0-9]*\.c\.o:' {} + | sed 's/.*isa_//; s/\..*//' | sort -u | tr '\n' ' ')
        [ "$built" = "$(printf '%s\n' portable "$best" | sort -u | tr '\n' ' ')" ] || fail "SCANFOLD_NATIVE builds kernels for: $built; this machine has $best"
fi

# The command line by its name, and as a module.
version=$("$bin/python" -c 'import scanfold; print(scanfold.__version__)')
# shellcheck disable=SC2086 # one of the two is three words
for program in "$bin/scanfold" "$bin/python -m scanfold"; do
        [ "$($program --version)" = "scanfold $version" ] || fail "$program is not $version"
        $program info | grep -q '(chosen)' || fail "$program info names no instruction set"
        [ "$($program sum x.npy)" = 15 ] || fail "$program sum is not 15"
        $program scan x.npy -o y.npy --axis 1 --reverse
        "$bin/python" -c 'import numpy
assert numpy.load("y.npy").tolist() == [[3, 3, 2], [12, 9, 5]]'
        rm y.npy
        $program sum none.npy 2> refusal && fail "$program found a file that is not there"
        grep -q '^scanfold: cannot open none.npy' refusal || fail "$program said: $(cat refusal)"
done
[ -e clean/share/man/man1/scanfold.1 ] || fail "the wheel has no manual page"
echo "check_wheel: the package, the program and python -m scanfold, from the wheel alone"
