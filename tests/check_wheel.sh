#!/bin/sh
# check_wheel.sh PYTHON FOLDER: the source distribution and the wheel, built with PYTHON, which has build and scikit-build-core; then
# the wheel alone in a new environment, where it must import and add.
set -eu
python=$1 folder=$2
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$folder"
mkdir -p "$folder"
cd "$root"
# One instruction set is enough to see that the parts are all there.
"$python" -m build --no-isolation --outdir "$folder" -C cmake.define.SCANFOLD_PORTABLE_ONLY=ON .
cd "$folder"
case $(echo *.whl) in
*-cp39-abi3-*) ;;
*) echo "the wheel is $(echo *.whl); it must be for cp39-abi3" >&2; exit 1 ;;
esac
"$python" -m venv clean
clean/bin/python -m pip install --quiet --disable-pip-version-check ./*.whl numpy
clean/bin/python - <<'END'
import numpy, scanfold
x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
assert scanfold.cumsum(x, axis=1, reverse=True).tolist() == [[3, 3, 2], [12, 9, 5]]
assert scanfold.sum(x, axis=(0, 1)).item() == 15

# What tests beside the sources cannot tell: the files beside the code, and the name torch.compile(backend="scanfold") finds.
import importlib.metadata, os
folder = os.path.dirname(scanfold.__file__)
parts = "__init__.pyi", "torch.pyi", "py.typed", "torch.py", "_compile.py"
missing = [name for name in parts if not os.path.exists(os.path.join(folder, name))]
assert not missing, f"the wheel has no {', '.join(missing)}"
points = [(e.group, e.name, e.value) for e in importlib.metadata.distribution("scanfold").entry_points]
assert ("torch_dynamo_backends", "scanfold", "scanfold._compile:backend") in points, f"the wheel's entry points are {points}"
print("scanfold", scanfold.__version__, "from", scanfold.__file__)
END
