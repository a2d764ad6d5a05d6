#!/bin/sh
# Stages of `make test`, several at a time; each is quiet until it is over.
#   stage.sh run FOLDER NAME COMMAND...   runs it, prints what it said, and leaves its log, result and seconds in FOLDER,
#                                         as they passed and as processors were busy with it
#   stage.sh table FOLDER NAME...         the results and times of these, and how long it all took since FOLDER was made
set -eu
what=$1 folder=$2
shift 2
case $what in
run)
        name=$1
        shift
        start=$(date +%s)
        echo "$name: started"
        if "$@" > "$folder/$name.log" 2>&1; then result=passed; else result=FAILED; fi
        seconds=$(($(date +%s) - start))
        times > "$folder/$name.times" # its second line: user and system time of what was run, such as 1m2.34s 0m5.67s
        busy=$(sed -n '2s/[ms]/ /gp' "$folder/$name.times" | awk '{ print int($1 * 60 + $2 + $3 * 60 + $4 + 0.5) }')
        rm "$folder/$name.times"
        echo "$result $seconds $busy" > "$folder/$name.result"
        # In one write, because another stage may end at the same time.
        {
                echo "---------------- $name ----------------"
                cat "$folder/$name.log"
                echo "---------------- $name: $result after $seconds s"
        } > "$folder/$name.shown"
        cat "$folder/$name.shown"
        rm "$folder/$name.shown"
        [ $result = passed ]
        ;;
table)
        echo
        printf '%-16s %8s %8s  %s\n' stage seconds "CPU s" result
        failed= sum=0
        for name in "$@"; do
                result="not run" seconds=- busy=0
                if [ -e "$folder/$name.result" ]; then
                        read -r result seconds busy < "$folder/$name.result"
                fi
                [ "$result" = passed ] || failed="$failed $name"
                sum=$((sum + busy))
                printf '%-16s %8s %8s  %s\n' "$name" "$seconds" "$busy" "$result"
        done
        printf '%-16s %8s %8s\n\n' "all" "$(($(date +%s) - $(cat "$folder/started")))" "$sum"
        # What could not run here, and why. Several tests may have the same reason.
        for name in "$@"; do
                [ ! -e "$folder/$name.log" ] || sed -n "s/^SKIPPED/SKIPPED in $name:/p" "$folder/$name.log"
        done | sort -u
        [ "$(uname -m)" = x86_64 ] || echo "SKIPPED test-neon: this machine is $(uname -m); where that is aarch64, all stages run NEON"
        command -v nvidia-smi > /dev/null 2>&1 || echo "SKIPPED test-gpu: no GPU here; on a machine with one, make test-gpu"
        if [ -n "$failed" ]; then
                echo "make test: not passed:$failed (logs in $folder)"
                exit 1
        fi
        echo "make test: everything passed"
        ;;
esac
