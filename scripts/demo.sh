#!/bin/sh
# Record a tiny training run, show its breakdown, and say how long each part took.
set -u
cd "$(dirname "$0")/.." || exit 1

start=$(date +%s)
sh scripts/setup.sh || exit 1
installed=$(date +%s)

printed=$(.venv/bin/workbench record gpt --preset tiny) || exit 1
run=$(echo "$printed" | tail -n 1)
run=${run#"$PWD/"}
recorded=$(date +%s)

.venv/bin/workbench show "$run" breakdown || exit 1
page=$(.venv/bin/workbench report "$run") || exit 1
drawn=$(date +%s)

echo
echo "The timeline of the run is in $page: open it in a browser, no network needed."
echo "The run is in $run: look at it with 'make lab', or with '.venv/bin/workbench show $run kernels'."
echo "Seconds spent: installing $((installed - start)), recording $((recorded - installed)), drawing $((drawn - recorded))."
