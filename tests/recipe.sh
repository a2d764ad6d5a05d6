#!/bin/sh
# recipe.sh: the recipes "To add a ..." of CONTRIBUTING.md and docs/expressions.md, followed in a copy of the sources.
#
# recipe.patch adds two operations: xor of integers, which is free, and `latest`, b unless it is zero, which is ordered and does not
# commute. They must then have the reference's bits in every list of cases, on the portable kernels (and NEON); with WIDE=ON, on AVX2 and
# AVX-512 too. The operations that were there before are left out of the kernels, and nothing is optimised: so it builds in
# a minute.
#
# recipe_more.patch adds an elementwise code, floor; what is made of folds, ptp; a rewrite, floor(floor(x)) -> floor(x); and an instruction
# set, twin, which is the portable one with other tiles. recipe_dtype.patch adds a dtype behind that: f8, reals of eight bits (E5M2). Both must
# apply; with MORE=yes they are built and tested too. `recipe.sh apply` ends when all have been applied.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$root" && tar -cf - CMakeLists.txt cmake include src tests) | tar -xf - -C "$work"
mkdir "$work/more"
cp -r "$work"/[!m]* "$work/more"
for name in recipe recipe_more recipe_dtype; do
        (cd "$work/$([ $name = recipe ] || echo more)" && patch -p1 -s < tests/$name.patch) ||
                { echo "recipe: tests/$name.patch no longer applies; make it anew" >&2; exit 1; }
done
files=$(grep -c '^+++ b/' "$work/tests/recipe.patch")
if [ "$files" -gt 5 ]; then
        echo "recipe: an operation takes $files files; five are enough" >&2
        exit 1
fi
[ "${1:-}" != apply ] || exit 0
sed -i '/^#define K_OP \(xor\|latest\)$/! s/^#define K_OP .*$/&\n#define K_ABSENT/' "$work/src/cpu/ops.inc.h"
build() { # FOLDER OPTIONS TARGETS...: not optimised
        tree=$1 options=$2
        shift 2
        # shellcheck disable=SC2086 # several options
        cmake -S "$tree" -B "$tree/build" -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_CUDA_HOST=OFF $options -DSCANFOLD_MPI=OFF \
                -DCMAKE_C_COMPILER="$(command -v clang || command -v cc)" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O0 -w" \
                > "$work/log" 2>&1 && cmake --build "$tree/build" -j "$(nproc)" --target "$@" >> "$work/log" 2>&1 ||
                { tail -40 "$work/log"; echo "recipe: the patched sources do not build" >&2; exit 1; }
}
build "$work" "-DSCANFOLD_AVX2=${WIDE:-OFF} -DSCANFOLD_AVX512=${WIDE:-OFF}" test_scan test_fold
for op in xor latest; do
        for test in test_scan test_fold; do
                "$work/build/tests/$test" --op "$op" --every "${EVERY:-60}" ||
                        { echo "recipe: $op fails in $test" >&2; exit 1; }
        done
done
echo "recipe: xor and latest have the reference's bits; $files files"
[ "${MORE:-no}" = yes ] || exit 0
build "$work/more" -DSCANFOLD_PORTABLE_ONLY=ON test_fused test_derived test_expr_rewrite test_scan test_laws
SCANFOLD_TEST_ENGINES='twin/1 twin/3'
export SCANFOLD_TEST_ENGINES
for test in "test_fused --cases 200 --large 2" "test_derived 40 1" "test_expr_rewrite" "test_scan --every ${EVERY:-60}" "test_laws --every ${EVERY:-60}"; do
        # shellcheck disable=SC2086 # a test and its options
        "$work/more/build/tests/"$test || { echo "recipe: $test fails with tests/recipe_more.patch and recipe_dtype.patch" >&2; exit 1; }
done
echo "recipe: floor, ptp, a rewrite, the instruction set twin and the dtype f8 have the reference's bits"
