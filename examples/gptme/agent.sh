#!/bin/sh
# An agent that follows protocol.md to the letter: agent.sh NAME FILE TASK…
set -eu
me=$1 file=$2
shift 2

tb coordination announce "$me" "looking for work" >/dev/null
for task; do
  tb coordination work-claim "$me" "$task" >/dev/null 2>&1 || continue # somebody else does it

  until tb coordination claim "$me" "$file" >/dev/null 2>&1; do sleep 0.1; done
  # A whole-file rewrite, as an editor does it: without the claim, two of these would lose a line.
  before=$(cat "$file")
  printf '%s\n%s by %s\n' "$before" "$task" "$me" >"$file"
  tb coordination release "$me" "$file" >/dev/null

  tb coordination send "$me" "$task is done" --channel discoveries >/dev/null
  tb coordination work-complete "$me" "$task" --result "a line in $file" >/dev/null
  echo "$me did $task"
done
