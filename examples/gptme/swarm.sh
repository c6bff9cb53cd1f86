#!/bin/sh
# Several agents for several tasks, all in one file: swarm.sh AGENTS TASK…
set -eu
count=$1
shift
here=$(dirname "$0")
[ -e notes.md ] || echo "# Notes" >notes.md

number=0
while [ "$number" -lt "$count" ]; do
  number=$((number + 1))
  "$here/agent.sh" "agent-$number" notes.md "$@" &
done
wait
tb coordination work-list
