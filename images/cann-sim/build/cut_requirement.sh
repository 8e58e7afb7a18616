#!/bin/sh
# Print one requirement of a lock file, with its hashes: cut_requirement.sh NAME LOCK
set -eu

name=$1
lock=$2

block=$(awk -v head="^$name==" '
    $0 ~ head { found = 1 }
    found { print }
    found && !/\\$/ { exit }   # the block ends with the first line that is not continued
' "$lock")

if [ -z "$block" ]; then
    echo "$lock: no requirement $name== in it; run make lock" >&2
    exit 1
fi
printf '%s\n' "$block"
