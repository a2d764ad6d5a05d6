#!/bin/sh
# sanitizers.sh COMPILER: installs what clang's sanitizers are linked with, if it is not there.
# Debian has it in a package of its own, which carries clang's version in its name and is not
# installed with clang.
set -eu
compiler=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int main(void) { return 0; }' > "$work/empty.c"
links() {
        "$compiler" -fsanitize=address,undefined "$work/empty.c" -o "$work/address" \
                > "$work/log" 2>&1 &&
                "$compiler" -fsanitize=thread "$work/empty.c" -o "$work/thread" >> "$work/log" 2>&1
}
links && exit 0
version=$("$compiler" -dumpversion)
"$(dirname "$0")/need.sh" no-such-command="libclang-rt-${version%%.*}-dev"
links || {
        cat "$work/log"
        echo "$compiler cannot link a program with its sanitizers" >&2
        exit 1
}
