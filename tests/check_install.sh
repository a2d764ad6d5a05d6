#!/bin/sh
# check_install.sh BUILD_DIRECTORY: installs into a fresh prefix, moves it, and builds a separate
# project on it with find_package and with pkg-config, shared and static. Then what README.md
# shows as its C program, installed by the lines of docs/install.md.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" > "$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved" # nothing in it may remember where it was
if [ -e "$build/cli/scanfold" ]; then
        "$work/moved/bin/scanfold" --version
fi

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
# README.md's C program, and docs/install.md's lines for a prefix of one's own, in a home of our own.
# What stands for the sources is a folder with their Makefile and what is built already, so that
# nothing is built again.
unset PKG_CONFIG_PATH MAKEFLAGS MFLAGS
readme=$here/../README.md
HOME=$work/home
export HOME
mkdir "$work/tree" "$work/fake" "$HOME"
ln -s "$here/../Makefile" "$here/../tests" "$work/tree"
ln -s "$(cd "$build" && pwd)" "$work/tree/build"
sed -n '/^## In C$/,/^## /{/^```c$/,/^```$/p}' "$readme" | grep -v '^```' > "$work/tree/app.c"
sed -n '/^For any other place/,/^With CMake/{/^```sh$/,/^```$/p}' "$here/../docs/install.md" | grep -v '^```' |
        sed 's/^make install/make -o build install/; s/^cc /${CC:-cc} /' > "$work/lines"
[ "$(grep -c . "$work/lines")" = 3 ]
# An install by root ends with ldconfig; here `id` says root, and a false ldconfig notes that it was
# called.
printf '#!/bin/sh\necho 0\n' > "$work/fake/id"
printf '#!/bin/sh\necho ran >> "%s/ldconfig"\n' "$work" > "$work/fake/ldconfig"
chmod +x "$work/fake/id" "$work/fake/ldconfig"
(cd "$work/tree" && PATH=$work/fake:$PATH sh -eu "$work/lines" > "$work/log" 2>&1) ||
        { cat "$work/log"; exit 1; }
[ "$(tail -n 1 "$work/log")" = "6 5 3, 15 11 6" ] || { cat "$work/log"; exit 1; }
[ "$(cat "$work/ldconfig")" = ran ]
(cd "$work/tree" && PATH=$work/fake:$PATH make -o build install DESTDIR="$work/staged" PREFIX=/usr \
        > "$work/log" 2>&1) || { cat "$work/log"; exit 1; }
[ -e "$work/staged/usr/include/scanfold.h" ] && [ "$(cat "$work/ldconfig")" = ran ]
echo "check_install: find_package and pkg-config, shared and static, from a moved prefix;" \
        "README.md's program, docs/install.md's lines"
