#!/bin/bash
# shows: over a bond of two links, one of which goes down in the middle of a film and comes back, every byte arrives
# machines: plain
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILMS=(001 002 003 004)

bonded() { # MODE
  bond_made "$1" xmit_hash_policy layer3+4
  elsewhere sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_rmem' # most of a film is still to be sent when a viewer is slow
  eventually 30 elsewhere ping -c 1 -W 1 10.9.0.1
}

active_leg() { # the one that carries most
  if [ "$(bytes_over 0)" -ge "$(bytes_over 1)" ]; then echo 0; else echo 1; fi
}
has_taken_over() { [ $(($(bytes_over "$1") - $2)) -gt 1000000 ]; } # LEG BYTES-BEFORE

through_a_failure() { # MODE ROUTE
  local film leg other before viewers=()
  serve_by "$2" --listen 10.9.0.1:8443
  for film in "${FILMS[@]}"; do FROM=elsewhere begin "$film" "https://10.9.0.1:8443/film-$film.mp4"; viewers+=("$VIEWER"); done
  leg=$(active_leg) other=$((1 - $(active_leg)))
  before=$(bytes_over "$other")
  ip link set "near$leg" down
  sleep 1
  for film in "${viewers[@]}"; do kill -0 "$film" || wrong "a viewer was gone while a link was down ($1, $2)"; done
  for film in "${FILMS[@]}"; do : >"/tmp/go-$film"; done
  eventually 30 has_taken_over "$other" "$before"
  ip link set "near$leg" up
  for film in "${!FILMS[@]}"; do
    go_on "${FILMS[film]}" "${viewers[film]}" || wrong "when a link of the bond went down ($1, $2): $(cat "/tmp/said-${FILMS[film]}")"
  done
  for film in "${FILMS[@]}"; do cmp "/tmp/got-$film" "/library/film-$film.mp4" || wrong "film-$film is not right ($1, $2)"; done
  say "$1, $2: $(($(bytes_over "$other") - before)) bytes went over the other link since; links that went down: $(awk '/Link Failure Count/ { sum += $4 } END { print sum }' /proc/net/bonding/bond)"
  expect "links that went down" "$(awk '/Link Failure Count/ { sum += $4 } END { print sum }' /proc/net/bonding/bond)" '>=' 1
  expect "faults" "$(metric tasks_panicked_total)" = 0
  stopped
}

for mode in active-backup 802.3ad; do
  bonded "$mode"
  for route in userspace kernel; do through_a_failure "$mode" "$route"; done
  bond_gone
done
