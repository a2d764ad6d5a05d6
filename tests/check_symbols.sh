#!/bin/sh
# check_symbols.sh LIBRARY HEADER ARCHIVE: the shared library exports what the header declares,
# nothing else, under its soname; and every global symbol of the static library begins with sf_,
# since hidden ones too share the one namespace of the program it is linked into.
set -eu
library=$1
header=$2
archive=$3
exported=$(nm -D --defined-only "$library" | awk '$2 ~ /^[A-Z]$/ {sub(/@.*/, "", $3); print $3}' | sort)
declared=$(grep -o '^SF_API .*' "$header" | grep -o 'sf_[a-z0-9_]*(' | tr -d '(' | sort -u)
if [ "$exported" != "$declared" ]; then
        echo "exported symbols and SF_API declarations differ:"
        printf '%s\n' "$exported" > "${TMPDIR:-/tmp}/exported.$$"
        printf '%s\n' "$declared" | diff "${TMPDIR:-/tmp}/exported.$$" - || true
        rm -f "${TMPDIR:-/tmp}/exported.$$"
        exit 1
fi
soname=$(objdump -p "$library" | awk '$1 == "SONAME" {print $2}')
number=$(sed -n 's/^#define SF_VERSION_\(MAJOR\|MINOR\) //p' "$header" | paste -s -d .)
# before 1.0 a minor version may change the ABI
case $number in 0.*) ;; *) number=${number%%.*} ;; esac
if [ "$soname" != "libscanfold.so.$number" ]; then
        echo "the soname is $soname; it must be libscanfold.so.$number"
        exit 1
fi
# Upper case is global; v, w and u are weak or unique, and meet their namesakes all the same.
global=$(nm --defined-only "$archive" | awk 'NF == 3 && $2 ~ /^[A-Zuvw]$/ {print $3}' | sort -u)
foreign=$(printf '%s\n' "$global" | grep -v '^sf_' || true)
if [ -n "$foreign" ]; then
        printf '%s has global symbols without the prefix sf_:\n%s\n' "$archive" "$foreign"
        exit 1
fi
# Whatever can fail is made to fail (tests/cuda/test_faults.c).
for name in $(grep -o '^SF_API \(sf_status\|int32_t sf_expr_\).*' "$header" | grep -o 'sf_[a-z0-9_]*(' | tr -d '('); do
        if ! grep -q "$name(" "$(dirname "$0")/cuda/fault_operations.c"; then
                echo "$name can fail, and tests/cuda/fault_operations.c does not call it"
                exit 1
        fi
done
# An archive nm cannot read has no symbols at all: the declared ones must be among them.
for name in $declared; do
        if ! printf '%s\n' "$global" | grep -qx "$name"; then
                echo "$archive lacks $name, which the header declares"
                exit 1
        fi
done
echo "check_symbols: $(printf '%s\n' "$exported" | wc -l) exported, all declared, soname $soname;" \
        "$(printf '%s\n' "$global" | wc -l) in the archive, all sf_"
