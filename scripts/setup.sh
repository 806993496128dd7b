#!/bin/sh
# Make .venv hold the pinned set, once: a second call costs one comparison of a checksum.
# Usage: sh scripts/setup.sh   (PYTHON=/path/to/python overrides the search)
set -u
cd "$(dirname "$0")/.." || exit 1
venv=.venv
stamp=$venv/.installed
cut=$venv/.installing
log=.install.log

fail() {
    echo "$1" >&2
    exit 1
}

# The folder is part of the key: an environment doesn't survive a move.
key=$({ pwd; cat pyproject.toml constraints.txt; } | cksum)
if [ "$(cat $stamp 2>/dev/null)" = "$key" ] && $venv/bin/python -c '' 2>/dev/null; then
    exit 0
fi

# A command by this name may exist and still not run (pyenv's shims), or be too old.
find_python() {
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

python=$(find_python) || fail "No Python 3.11 or newer was found: install one (or name it: make PYTHON=/path/to/python) and run make again."
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python has no venv module: install it (on Debian and Ubuntu the package python3-venv) and run make again."

step() {
    "$@" >>$log 2>&1 && return
    reason=$(sed -nE 's/^ *(ERROR|Error|error): *//p' $log | head -n 1 | sed 's/[. ]*$//')
    grep -q 'connection broken' $log && reason="the package index could not be reached"
    rm -f $cut
    fail "Installing failed (${reason:-see the log}): mend that and run make again; the whole story is in $log."
}

{ true >$log; } 2>/dev/null || fail "The folder $(pwd) is not writable: clone the repository where you can write."
echo "Installing the pinned set into $venv with $("$python" -V 2>&1), a minute or two; log in $log." >&2
# What an interrupted install left is not built upon; what a failed one left is whole, as pip rolls back.
if [ -e $cut ] || ! $venv/bin/python -c 'import pip' 2>/dev/null; then
    step "$python" -m venv --clear $venv
fi
rm -f $stamp
: >$cut
pinned() {
    grep "^$1==" constraints.txt
}

# Not compiling, and a pip newer than Python's own, halve the time.
pip="$venv/bin/python -m pip install --disable-pip-version-check --no-input --no-compile"
step $pip -c constraints.txt "$(pinned pip)" "$(pinned hatchling)"
# Torch first and alone: its pin then takes a CPU build wherever the index offers one.
step $pip --no-deps "$(pinned torch)"
step $pip -c constraints.txt --no-build-isolation -e '.[app,dev,bench]'
echo "$key" >$stamp
rm -f $cut
