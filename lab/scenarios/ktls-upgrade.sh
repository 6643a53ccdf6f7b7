#!/bin/bash
# shows: the kernel route with TLS over five upgrades: viewers who keep their connections, and new viewers, notice nothing, and the kernel encrypts with each new server
# machines: newest plain
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=https://127.0.0.1:8443/film-004.mp4
PART=100000
head -c "$PART" /library/film-004.mp4 >/tmp/part
for ((i = 0; i < 10; i++)); do cat /tmp/part; done >/tmp/ten-parts

# Requests repeatedly. A connection that ends without an answer is a fault, too: curl would only report that it "died, retrying".
watches() { # NAME BYTES CURL-ARGUMENTS...
  local name=$1 expected=$2; shift 2
  while [ ! -e /tmp/enough ]; do
    if ! get -v --range "0-$((PART - 1))" "$@" 2>"/tmp/said-$name" | cmp - "$expected" || grep 'died, retrying' "/tmp/said-$name"; then
      mv "/tmp/said-$name" "/tmp/wrong-$name"
      return
    fi
    echo "$name" >>/tmp/answers
  done
}

VIEWERS=()
serve_by kernel --listen 127.0.0.1:8443
for ((i = 0; i < 6; i++)); do watches "keeps-$i" /tmp/ten-parts --rate 4/s "$FILM?[1-10]" & VIEWERS+=($!); done
for ((i = 0; i < 3; i++)); do watches "new-$i" /tmp/part "$FILM" & VIEWERS+=($!); done
has_answers() { [ "$(wc -l </tmp/answers)" -gt "$1" ]; }
touch /tmp/answers
eventually 60 has_answers 10
has_ended_process() { [ ! -e "/proc/$OLD" ]; }
for ((i = 0; i < 5; i++)); do
  OLD=$SERVER
  fullbore upgrade --settle-seconds 1 /library --state /tmp/state --admin "$ADMIN" --route kernel --listen 127.0.0.1:8443 2>/tmp/upgrade </dev/null >/dev/null ||
    wrong "the upgrade: $(cat /tmp/upgrade)"
  SERVER=$(sed -n 's/.*process \([0-9]*\) serves now.*/\1/p' /tmp/upgrade)
  eventually 60 has_answers "$(($(wc -l </tmp/answers) + 5))"
  eventually 60 has_ended_process
  expect "connections that the kernel seals for" "$(routed kernel)" '>' 0
  expect "connections that are sealed for in user space" "$(routed userspace)" = 0
  expect "viewers for whom something was wrong" "$(find /tmp -name 'wrong-*' | wc -l)" = 0
done
touch /tmp/enough
wait "${VIEWERS[@]}"
for each in /tmp/wrong-*; do [ ! -e "$each" ] || { cat "$each"; wrong "a viewer noticed: $each"; }; done
kill -TERM "$SERVER"
OLD=$SERVER
eventually 60 has_ended_process
say "five upgrades: $(grep -c new /tmp/answers) new viewers, $(grep -c keeps /tmp/answers) times ten answers on kept connections, all right"
