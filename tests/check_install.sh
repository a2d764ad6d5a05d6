#!/bin/sh
# check_install.sh BUILD_DIRECTORY: installs into a fresh prefix, moves it, and builds a separate project on it with
# find_package and with pkg-config, shared and static.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" > "$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved" # nothing in it may remember where it was

cmake -S "$here/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/moved" > "$work/log" 2>&1 &&
        cmake --build "$work/build" >> "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for program in consumer_scanfold consumer_shared consumer_static; do
        "$work/build/$program"
done

PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name scanfold.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion scanfold)" = 0.1.0 ]
libdir=$(pkg-config --variable=libdir scanfold)
# shellcheck disable=SC2046 # flags are words
${CC:-cc} "$here/header.c" $(pkg-config --cflags --libs scanfold) -Wl,-rpath,"$libdir" -o "$work/by_pkg_config"
"$work/by_pkg_config"
rm "$libdir"/libscanfold.so*
# shellcheck disable=SC2046
${CC:-cc} "$here/header.c" $(pkg-config --cflags --static --libs scanfold) -o "$work/by_pkg_config_static"
"$work/by_pkg_config_static"
echo "check_install: find_package and pkg-config, shared and static, from a moved prefix"
