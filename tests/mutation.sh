#!/bin/sh
# mutation.sh: shows that the tests would notice a wrong line. Copies the sources, changes one line of the kernels, builds,
# and runs TEST (a test and its arguments; unless it is given, the order tests), which must fail. The line is FILE's only
# match of PATTERN (a basic regular expression); REPLACEMENT is what sed puts in its place. An empty change or a second
# match is an error, so that the mutation cannot go stale silently.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
: "${FILE:?the file to change, such as src/cpu/scan.inc.h}"
: "${PATTERN:?the line to change}" "${REPLACEMENT:?what to change it to}"
work=$(mktemp -d)
if [ -n "${TEST:-}" ]; then set -- "$TEST"; else set -- "test_order $work/tests/order_vectors.txt" test_laws; fi
trap 'rm -rf "$work"' EXIT
(cd "$root" && tar -cf - CMakeLists.txt cmake include src tests) | tar -xf - -C "$work"

count=$(grep -c -- "$PATTERN" "$work/$FILE" || true)
if [ "$count" != 1 ]; then
        echo "mutation: $FILE has $count lines that match '$PATTERN'; it must be exactly one" >&2
        exit 1
fi
sed -i "s/$PATTERN/$REPLACEMENT/" "$work/$FILE"
if cmp -s "$work/$FILE" "$root/$FILE"; then
        echo "mutation: '$REPLACEMENT' changed nothing in $FILE" >&2
        exit 1
fi
echo "mutation: $FILE"
diff "$root/$FILE" "$work/$FILE" || true

# One instruction set is enough, and not optimised: it takes seconds to compile instead of minutes.
cmake -S "$work" -B "$work/build" -DSCANFOLD_CLI=OFF -DSCANFOLD_EXAMPLES=OFF -DSCANFOLD_PORTABLE_ONLY=ON -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG=-O0 > "$work/log" 2>&1 &&
        cmake --build "$work/build" -j "$(nproc)" --target $(for test; do echo "${test%% *}"; done) >> "$work/log" 2>&1 ||
        { tail -40 "$work/log"; echo "mutation: the changed sources do not build" >&2; exit 1; }
caught=
for test; do
        # shellcheck disable=SC2086 # a program and its argument
        if "$work/build/tests/"$test > "$work/log" 2>&1; then
                echo "mutation: ${test%% *} does not notice"
        else
                echo "mutation: ${test%% *} notices: $(head -1 "$work/log")"
                caught=yes
        fi
done
if [ -z "$caught" ]; then
        echo "mutation: no test fails" >&2
        exit 1
fi
