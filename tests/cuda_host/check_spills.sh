#!/bin/sh
# check_spills.sh write_kernels nvcc [arch] [bars|all]: compiles the listed specialisations and prints what each takes. Those with a
# promised speed ("bars") may not spill more than four words, which a kernel that has several lines one after another keeps
# from line to line: among the elements nothing is spilled. Scans of products may, up to an exponent for each element of a
# thread and some totals: warps whose products leave the range park these (tree_products.cuh); others do not come by there.
# Chains over segments may, up to sixteen words, which a warp parks once for a group of rows or for a segment.
set -eu
write_kernels=$1 nvcc=$2 arch=${3:-90} which=${4:-bars}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$write_kernels" "$folder" "$which"
failed=0
for file in "$folder"/*.cu; do
        report=$("$nvcc" -std=c++14 -cubin -arch="sm_$arch" -fmad=false -Xptxas -v -o /dev/null "$file" 2>&1) || { echo "$report"; exit 1; }
        registers=$(echo "$report" | sed -n 's/.*Used \([0-9]*\) registers.*/\1/p')
        spills=$(echo "$report" | sed -n 's/.* \([0-9]*\) bytes spill stores.*/\1/p')
        echo "$(basename "$file" .cu): $registers registers, $spills bytes spilled"
        case $(basename "$file") in
        *prod_rows* | *prod_columns* | *prod_long* | *prod_narrow* | *prod_short*) most=352 ;;
        *max_segments* | *norm_segments*) most=64 ;;
        *) most=16 ;;
        esac
        [ "$which" != bars ] || [ "$spills" -le "$most" ] || failed=1
done
exit $failed
