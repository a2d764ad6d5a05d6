#!/bin/sh
# check_hardened.sh LIBRARY FILE...: the shared library and the programs have what cmake/harden.cmake asks for.
set -eu
fail() { echo "check_hardened: $1" >&2; exit 1; }
library=$1
for file; do
        about=$(readelf -W -h -l -d "$file")
        echo "$about" | grep -q 'Type: *DYN' || fail "$file is not position-independent"
        echo "$about" | grep -q GNU_RELRO || fail "$file: what is written while it is loaded stays writable (relro)"
        echo "$about" | grep -q -E 'BIND_NOW|Flags:.*NOW' || fail "$file: symbols are found when they are first used (now)"
        echo "$about" | grep GNU_STACK | grep -q RWE && fail "$file: its stack can be executed"
        wanted=$(nm -D -u "$file")
        echo "$wanted" | grep -q __stack_chk_fail || fail "$file: stacks are not guarded"
        echo "$wanted" | grep -q '_chk\(@\|$\)' || fail "$file: copies are not checked (_FORTIFY_SOURCE)"
done
# Where the processor supports it, indirect calls must end at a marked instruction.
marks=$(case $(uname -m) in x86_64) echo endbr64 ;; aarch64) echo 'bti\|paciasp' ;; esac)
if [ -n "$marks" ]; then
        objdump -d --disassemble=sf_scan "$library" | grep -q "$marks" || fail "$library: sf_scan does not begin with a mark ($marks)"
fi
echo "check_hardened: $# files"
