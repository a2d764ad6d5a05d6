#!/bin/sh
# speed.sh CLI [KIND]          fails where a scan or a fold has collapsed: where its part of a copy's speed, both measured here and now, is under half of
#                              what is recorded for CPUs of this kind, which is their instruction set. With KIND, avx2 say, the record of that one.
# speed.sh CLI --record        writes the records of this machine: tests/speed/KIND-THREADS.json. The machine should have nothing else to do.
#
# A dozen rows of `scanfold bench`, with one thread and with two. Copy and work take turns, and a row that seems slow is measured again, up to five times with
# longer and longer pauses, before it is called slow. One thread is timed by its own time on a processor. Two are by the clock; if others had the
# processors all the while, the row could not be measured, which is no failure (cli/bench.c).
set -eu
records=$(cd "$(dirname "$0")" && pwd)/speed
cli=$1 what=${2:-} failed=
chosen=$("$cli" info | sed -n 's/^instructions.* \([a-z0-9]*\) (chosen).*/\1/p')
kind=${what:-$chosen}
for threads in 1 2; do
        record=$records/$kind-$threads.json
        if [ "$what" = --record ]; then
                mkdir -p "$records"
                "$cli" bench --quick --few --rounds 15 --threads $threads --json "$records/$chosen-$threads.json"
        elif [ ! -e "$record" ]; then
                echo "SKIPPED: there is no record for $kind, threads: $threads, in tests/speed; tests/speed.sh CLI --record makes it"
        elif [ $threads -gt "$(nproc)" ]; then
                echo "SKIPPED: threads: $threads, on a machine of $(nproc) processor"
        else
                echo "speed: $kind, threads: $threads; recorded with $(sed -n 's/^  "cpu": "\(.*\)",/\1/p' "$record")"
                said=$("$cli" bench --quick --few --rounds 5 --threads $threads --tolerance 0.5 --compare "$record") || failed="too slow"
                echo "$said"
                if echo "$said" | grep -q 'could not be measured'; then
                        echo "SKIPPED: rows, threads: $threads, that could not be measured, since others had the processors"
                fi
                if echo "$said" | grep -q ' -$'; then failed="not in the record"; fi
        fi
done
if [ -n "$failed" ]; then
        echo "speed: a row is $failed. If the record does not suit this CPU, or its rows, tests/speed.sh $cli --record makes one that does" >&2
        exit 1
fi
