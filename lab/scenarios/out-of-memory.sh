#!/bin/bash
# shows: a control group of version 2 also counts socket buffers: 300 slow viewers fill it, and the server refuses and waits, and is not killed
# machines: newest
# machines long: plain
# deadline: 600
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=http://127.0.0.1:8080
BOX=/sys/fs/cgroup/box
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir "$BOX"

# Memory that cannot be reclaimed at once: everything except the page cache.
used() { awk '$1 == "active_file" || $1 == "inactive_file" { files += $2 } END { getline used <"'"$BOX"'/memory.current"; print used - files }' "$BOX/memory.stat"; }

printf '[limits]\nbuffer_bytes_max = 4194304\n' >/tmp/fullbore.toml
for route in userspace kernel; do
  echo $$ >"$BOX/cgroup.procs" # later processes belong to the group
  serve --route "$route" --tls off --config /tmp/fullbore.toml --listen 127.0.0.1:8080
  echo $$ >/sys/fs/cgroup/cgroup.procs
  same_as /library/film-001.mp4 "$S/film-001.mp4"
  settled
  echo $(($(used) + (12 << 20))) >"$BOX/memory.max"
  sleep 2 # it checks once a second while there is no limit
  fullbore load --insecure --allow-errors --connections 300 --ramp 5s --duration 15s --read-rate 20K --pattern whole "$S"/film-00{1,2,3,4}.mp4 >/tmp/load.log 2>&1 || wrong "the viewers failed: $(cat /tmp/load.log)"
  kill -0 "$SERVER" || wrong "the server is gone"
  refused=$(metric 'connections_refused_total{reason="memory"}')
  say "$route: group of $(($(cat "$BOX/memory.max") >> 20)) MiB, at most $(($(cat "$BOX/memory.peak" 2>/dev/null || echo 0) >> 20)) MiB; sockets had $(awk '$1 == "sock" { print $2 }' "$BOX/memory.stat") bytes; $refused refused, $(metric send_pauses_total) waits; $(metric connections_accepted_total) accepted"
  expect "processes that the kernel killed" "$(awk '$1 == "oom_kill" { print $2 }' "$BOX/memory.events")" = 0
  expect "viewers refused or made to wait" "$((refused + $(metric send_pauses_total)))" '>' 0
  echo max >"$BOX/memory.max"
  sleep 2
  same_as /library/film-002.mp4 "$S/film-002.mp4"
  expect "faults" "$(metric tasks_panicked_total)" = 0
  stopped
done
