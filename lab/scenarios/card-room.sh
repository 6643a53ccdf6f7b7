#!/bin/bash
# shows: a card has room for 100 connections, and 200 viewers come: the card gets 100, the server encrypts the others; all of them are counted rightly, every byte is right, and none is unencrypted on the wire. When these viewers have left, the card gets new ones
# machines: plain
# machines long: newest
# deadline: 300
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://10.9.0.1:8443
FILMS=10 VIEWERS=20 BYTES=262144
for ((film = 1; film <= FILMS; film++)); do head -c "$BYTES" "/library/film-$(printf %03d "$film").mp4"; done >/tmp/all
viewers() { echo $(($(routed kernel) + $(routed userspace))); }
all_are_served() { [ "$(viewers)" -ge "$1" ]; } # COUNT

cards_made 1
wire_watched 1 /tmp/all
modprobe tls
# No viewer finishes at once, or while the crowd is still arriving, even on a busy machine.
elsewhere sh -c 'echo "4096 16384 32768" >/proc/sys/net/ipv4/tcp_rmem'
card_is room 100
serve_with_nic on auto

# One curl for each film, with a connection for each of its viewers. Once these are served it is stopped, so that all of them stay.
crowds=()
for ((film = 1; film <= FILMS; film++)); do
  name=film-$(printf %03d "$film")
  ip netns exec elsewhere curl -sSk --fail "${TLS12[@]}" --parallel --parallel-immediate --parallel-max "$VIEWERS" --limit-rate 8k \
    --range "0-$((BYTES - 1))" -o "/tmp/got-$name-#1" "$S/$name.mp4?viewer=[1-$VIEWERS]" >"/tmp/said-$name" 2>&1 &
  crowds+=($!)
  eventually 60 all_are_served $((film * VIEWERS))
  kill -STOP $! || wrong "viewers of $name have left: $(tail -n 3 "/tmp/said-$name")"
done
settled
say "$(viewers) viewers: on the card $(card_sessions 0); refused by it $(card_stat 0 lab_refused); kept by the server $(withheld no_room)"
say "as the server counted: got by the card $(got card), by the CPU $(got cpu), unclear $(got unclear); TlsTxDevice $(tls_stat TlsTxDevice), TlsTxSw $(tls_stat TlsTxSw)"
expect "viewers" "$(viewers)" = $((FILMS * VIEWERS))
expect "connections on the card" "$(card_sessions 0)" = 100
expect "connections that the card ever got" "$(card_stat 0 tx_tls_ctx)" = 100
expect "the same, as the kernel counted" "$(tls_stat TlsTxDevice)" = 100
expect "connections that it refused, and those that were not offered" "$(($(card_stat 0 lab_refused) + $(withheld no_room)))" = 100
expect "connections that were offered, and got" "$(($(got card) + $(got cpu) + $(got unclear)))" = $((100 + $(card_stat 0 lab_refused)))
expect "connections that the server encrypts" "$(routed userspace)" = "$(withheld no_room)"

kill -CONT "${crowds[@]}"
for ((film = 1; film <= FILMS; film++)); do
  name=film-$(printf %03d "$film")
  wait "${crowds[film - 1]}" || wrong "a viewer of $name was cut off: $(cat "/tmp/said-$name")"
  head -c "$BYTES" "/library/$name.mp4" >/tmp/part
  for ((viewer = 1; viewer <= VIEWERS; viewer++)); do
    cmp "/tmp/got-$name-$viewer" /tmp/part || wrong "$name is not right for viewer $viewer"
  done
done

# The server learns that there is room again, by trying one at ever longer times.
has_room() {
  elsewhere curl -sSk "${TLS12[@]}" --range "0-$((BYTES - 1))" "$S/film-001.mp4" | cmp -n "$BYTES" - /library/film-001.mp4 || wrong "a film is not right after the crowd"
  [ "$(card_stat 0 tx_tls_ctx)" -gt 100 ]
}
eventually 100 has_room
card_said 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
wire_clean 1
