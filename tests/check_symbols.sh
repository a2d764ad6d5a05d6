#!/bin/sh
# check_symbols.sh LIBRARY HEADER: the shared library exports what the header declares, nothing else, under its soname.
set -eu
library=$1
header=$2
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
if [ "$soname" != libscanfold.so.0 ]; then
        echo "the soname is $soname; it must be libscanfold.so.0"
        exit 1
fi
echo "check_symbols: $(printf '%s\n' "$exported" | wc -l) exported, all declared, soname $soname"
