#!/bin/sh
# check_header.sh LIBRARY_DIRECTORY: tests/header.c in each language, alone and after dlpack.h, run against the library.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
libdir=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
count=0
for dlpack in "" -DWITH_DLPACK; do
        for language in "${CC:-cc} -x c -std=c11" "${CC:-cc} -x c -std=c17" "${CXX:-c++} -x c++ -std=c++17"; do
                # shellcheck disable=SC2086 # both are words, on purpose
                $language $dlpack -Wall -Wextra -Wpedantic -Werror -I"$here/../include" -I"$here" "$here/header.c" \
                        -L"$libdir" -Wl,-rpath,"$libdir" -lscanfold ${HEADER_LDFLAGS:-} -o "$out/header"
                "$out/header"
                count=$((count + 1))
        done
done
echo "check_header: $count builds, warnings as errors, all run"
