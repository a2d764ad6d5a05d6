#!/bin/sh
# check_deb.sh FOLDER: the Debian packages that `make deb` left in FOLDER. They are unpacked into an empty tree; the command must run
# there, and README.md's C program must compile by pkg-config, link with the shared and the static library, and print what it says.
# Where lintian is there, it must find no error.
set -eu
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "check_deb: $1" >&2; exit 1; }
version=$(sed -n 's/^project(scanfold VERSION \([0-9.]*\).*/\1/p' "$here/../CMakeLists.txt")
for name in "libscanfold${version%.*}" libscanfold-dev scanfold; do
        package=$(ls "$folder/${name}_$version"-*.deb 2> /dev/null) || fail "no package $name in $folder"
        dpkg-deb -x "$package" "$work/tree"
        dpkg-deb -I "$package" | grep -q '^ Maintainer: .*<.*@.*>$' || fail "$name has no maintainer"
        [ -s "$work/tree/usr/share/doc/$name/copyright" ] || fail "$name has no copyright file"
        set -- "$@" "$package"
done
shift # the folder: what is left are packages
dpkg-deb -f "$3" Depends | grep -q "libscanfold${version%.*} (= $version-" || fail "scanfold does not depend on its library"

libdir=$(dirname "$(find "$work/tree" -name libscanfold.so)")
export LD_LIBRARY_PATH="$libdir" PKG_CONFIG_LIBDIR="$libdir/pkgconfig"
[ "$("$work/tree/usr/bin/scanfold" --version)" = "scanfold $version" ] || fail "scanfold --version"
"$work/tree/usr/bin/scanfold" info | grep -q '(chosen)' || fail "scanfold info names no instruction set"
"$here/check_travels.sh" "$work/tree/usr/bin/scanfold"
[ -e "$work/tree/usr/share/man/man1/scanfold.1.gz" ] || fail "no manual page"
readelf -d "$work/tree/usr/bin/scanfold" | grep -q 'R.*PATH' && fail "scanfold has a run path"
sed -n '/^## In C$/,/^## /{/^```c$/,/^```$/p}' "$here/../README.md" | grep -v '^```' > "$work/app.c"
for kind in "" --static; do
        [ -z "$kind" ] || rm "$libdir"/libscanfold.so*
        # shellcheck disable=SC2046 # flags are words
        ${CC:-cc} "$work/app.c" $(pkg-config --cflags --libs $kind scanfold) -o "$work/app"
        [ "$("$work/app")" = "6 5 3, 15 11 6" ] || fail "README.md's program, ${kind:-shared}"
done
if command -v lintian > /dev/null; then
        lintian --allow-root --fail-on error "$@"
fi
echo "check_deb: $*: unpacked, the command run, README.md's program compiled and run"
