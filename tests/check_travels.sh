#!/bin/sh
# check_travels.sh SCANFOLD: the command was built with the kernels of every instruction set of its kind of processor, not of one machine alone.
set -eu
program=$1
have=$("$program" info | sed -n 's/^instructions *//p')
case $(uname -m) in
x86_64 | amd64) wanted="portable avx2 avx512" ;;
aarch64 | arm64) wanted="portable neon" ;;
*) wanted=portable ;;
esac
for isa in $wanted; do
        case " $have " in
        *" $isa "*) ;;
        *)
                echo "check_travels: $program has no $isa kernels; it has: $have (was it built with SCANFOLD_NATIVE?)" >&2
                exit 1
                ;;
        esac
done
