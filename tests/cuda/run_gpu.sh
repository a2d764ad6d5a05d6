#!/bin/sh
# run_gpu.sh BUILD_FOLDER: every test that needs a GPU. The lists of cases are shared out among processes, since most of the time
# goes into compiling kernels; SCANFOLD_GPU_JOBS says how many (default: the CPUs), SCANFOLD_GPU_EVERY thins the lists out, and
# SCANFOLD_GPU_FUZZ is how many random cases there are, a twentieth of it how many random fused steps, and a 200th how many random graphs
# of either kind. compute-sanitizer, where it is installed, looks over a selection.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1/tests/cuda" && pwd)
jobs=${SCANFOLD_GPU_JOBS:-$(nproc)}
every=${SCANFOLD_GPU_EVERY:-1}
fuzz=${SCANFOLD_GPU_FUZZ:-20000}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
failed=0

"$build/test_gpu" || failed=1

# run NAME ARGUMENTS...: one program, in $jobs shares.
run() {
        name=$1
        shift
        share=0
        pids=
        while [ "$share" -lt "$jobs" ]; do
                SCANFOLD_GPU_SHARD=$share/$jobs "$build/$name" "$@" >"$logs/$name.$share" 2>&1 &
                pids="$pids $!"
                share=$((share + 1))
        done
        bad=0
        for pid in $pids; do
                wait "$pid" || bad=$((bad + 1))
        done
        tail -n 1 "$logs/$name.0"
        if [ "$bad" -gt 0 ]; then
                echo "$name: $bad of $jobs shares failed:"
                cat "$logs/$name".* | grep -v ' 0 failures$' | head -n 40
                failed=1
        fi
}
run gpu_test_order "$here/../order_vectors.txt"
run gpu_test_laws_f32
run gpu_test_laws --every $((every * 16)) # each pair of dtypes is a dozen kernels to compile
run gpu_test_scan --every "$every"
run gpu_test_fold --every "$every"
run gpu_fuzz "$fuzz"
run gpu_fused "$((fuzz / 20))"
run gpu_expr "$((fuzz / 200))"

if command -v compute-sanitizer >/dev/null 2>&1; then
        for tool in memcheck racecheck; do
                echo "compute-sanitizer $tool"
                SCANFOLD_GPU_SHARD=0/400 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/gpu_fuzz" 2000 >"$logs/$tool" 2>&1 ||
                        { failed=1; tail -n 40 "$logs/$tool"; }
                compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/gpu_fused" 20 >"$logs/$tool" 2>&1 || { failed=1; tail -n 40 "$logs/$tool"; }
        done
else
        echo "compute-sanitizer is not installed: not run"
fi
[ "$failed" -eq 0 ] && echo "all GPU tests passed"
exit "$failed"
