#!/bin/sh
# recipe.sh: CONTRIBUTING's "To add an operation", followed. recipe.patch adds two of them: xor of
# integers, which is free, and `latest`, b unless it is zero, which is ordered and does not commute.
# They must then have the reference's bits in every list of cases, on the portable and the AVX2 (or NEON)
# kernels; with AVX512=ON, on those too. The operations that were there before are left out of the
# kernels, and nothing is optimised: so it builds in a minute.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$root" && tar -cf - CMakeLists.txt cmake include src tests) | tar -xf - -C "$work"
(cd "$work" && patch -p1 -s < tests/recipe.patch) ||
        { echo "recipe: tests/recipe.patch no longer applies; make it anew" >&2; exit 1; }
files=$(grep -c '^+++ b/' "$work/tests/recipe.patch")
if [ "$files" -gt 5 ]; then
        echo "recipe: an operation takes $files files; five are enough" >&2
        exit 1
fi
sed -i '/^#define K_OP \(xor\|latest\)$/! s/^#define K_OP .*$/&\n#define K_ABSENT/' "$work/src/cpu/ops.inc.h"
cmake -S "$work" -B "$work/build" -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF \
        -DSCANFOLD_CUDA_HOST=OFF -DSCANFOLD_AVX512="${AVX512:-OFF}" -DSCANFOLD_MPI=OFF \
        -DCMAKE_C_COMPILER="$(command -v clang || command -v cc)" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O0 -w" \
        > "$work/log" 2>&1 &&
        cmake --build "$work/build" -j "$(nproc)" --target test_scan test_fold \
                >> "$work/log" 2>&1 ||
        { tail -40 "$work/log"; echo "recipe: the patched sources do not build" >&2; exit 1; }
for op in xor latest; do
        for test in test_scan test_fold; do
                "$work/build/tests/$test" --op "$op" --every "${EVERY:-60}" ||
                        { echo "recipe: $op fails in $test" >&2; exit 1; }
        done
done
echo "recipe: xor and latest have the reference's bits; $files files"
