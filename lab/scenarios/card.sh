#!/bin/bash
# shows: a network card encrypts the connections that it accepts and nothing else, every byte is right in spite of losses, refusals and changes of the link, and no byte of a film is unencrypted on the wire
# machines: plain
# machines long: newest
# deadline: 420
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-001.mp4
S=https://10.9.0.1:8443
fetch() { elsewhere curl -sSk "$@" "$S/film-001.mp4" | cmp - "$FILM" || wrong "the film is not right: curl $*"; }
card_total() { card_stat 0 tx_tls_ctx; }

# --- required where there is none: refused with a message; auto serves ----------------------------------------------------------------
modprobe tls
printf '[tls]\nnic = "on"\n' >/tmp/nic.toml
status=0
fullbore serve /library --config /tmp/nic.toml --state /tmp/state --admin 127.0.0.1:0 --listen 127.0.0.1:0 >/tmp/refused 2>&1 || status=$?
expect "exit code without a card" "$status" = 1
say "without a card: $(grep tls.nic /tmp/refused)"
grep -q 'no network card encrypts' /tmp/refused || wrong "the refusal does not say what is missing"

cards_made 1
wire_watched 1 "$FILM"
wire_seen "$FILM"
wire_watched 1 "$FILM"

ethtool -K card0 tls-hw-tx-offload off
status=0
fullbore serve /library --config /tmp/nic.toml --state /tmp/state --admin 127.0.0.1:0 --listen 127.0.0.1:0 >/tmp/refused 2>&1 || status=$?
expect "exit code with the feature off" "$status" = 1
grep -q 'ethtool -K card0 tls-hw-tx-offload on' /tmp/refused || wrong "the refusal does not say what to do: $(cat /tmp/refused)"
ethtool -K card0 tls-hw-tx-offload on

# --- the kernel route: each version and cipher -----------------------------------------------------------------------------------
serve_with_nic auto kernel
eventually 20 grep -q '^cards' /tmp/fullbore.log
say "$(grep '^cards' /tmp/fullbore.log)"
for suite in AES128-GCM-SHA256 AES256-GCM-SHA384; do fetch --tls-max 1.2 --ciphers "ECDHE-ECDSA-$suite"; done
expect "connections that the card got, TLS 1.2 with AES" "$(card_total)" = 2
fetch --tls-max 1.2 --ciphers ECDHE-ECDSA-CHACHA20-POLY1305
fetch --tlsv1.3
expect "connections that the card got, of all" "$(card_total)" = 2
say "got by the card $(got card), by the CPU $(got cpu), unclear $(got unclear); TlsTxDevice $(tls_stat TlsTxDevice), TlsTxSw $(tls_stat TlsTxSw)"
expect "the same, as the server counted" "$(got card)" = 2
expect "connections that the card did not take" "$(got cpu)" = 2
expect "the kernel's count" "$(tls_stat TlsTxDevice)" = 2

# Keep-alive and ranges.
cat "$FILM" /library/film-002.mp4 >/tmp/two
elsewhere curl -sSk "${TLS12[@]}" "$S/film-001.mp4" "$S/film-002.mp4" | cmp - /tmp/two || wrong "two films over one connection are not right"
elsewhere curl -sSk "${TLS12[@]}" --range 1000001-3000000 "$S/film-001.mp4" >/tmp/part
cmp -n 2000000 /tmp/part "$FILM" 0 1000001 || wrong "a range is not right"
expect "connections that the card got" "$(card_total)" = 4

# --- losses behind the card, before it, and both ---------------------------------------------------------------------------------
card_is lose 100
fetch "${TLS12[@]}"
expect "packets out of order" "$(card_stat 0 tx_tls_ooo)" '>' 0
card_is lose 0
tc qdisc replace dev card0 root netem loss 8% # of packets that are cut into segments only after it
fetch "${TLS12[@]}"
expect "new points to begin at" "$(card_stat 0 lab_resync)" '>' 0
card_is lose 200
fetch --tls-max 1.2 --ciphers ECDHE-ECDSA-AES256-GCM-SHA384
tc qdisc del dev card0 root
card_is lose 0
card_said 0
stopped

# --- changes while a film is sent ------------------------------------------------------------------------------------------------
elsewhere sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_rmem' # most of a film is still to be sent when a viewer is slow
serve_with_nic auto kernel
FROM=elsewhere begin link "${TLS12[@]}" "$S/film-001.mp4"
ip link set card0 down
ip link set card0 up
expect "connections on the card after its link went down" "$(card_sessions 0)" = 0
go_on link "$VIEWER" || wrong "a viewer was cut off when the link went down: $(cat /tmp/said-link)"
cmp /tmp/got-link "$FILM" || wrong "the film is not right after the link went down"
FROM=elsewhere begin feature "${TLS12[@]}" "$S/film-001.mp4"
feature=$VIEWER before=$(card_total)
ethtool -K card0 tls-hw-tx-offload off
fetch "${TLS12[@]}"
expect "connections that the card got while its feature was off" "$(card_total)" = "$before"
ethtool -K card0 tls-hw-tx-offload on
go_on feature "$feature" || wrong "a viewer was cut off when the feature went off: $(cat /tmp/said-feature)"
cmp /tmp/got-feature "$FILM" || wrong "the film is not right after the feature went off"

# --- refusals, and no room -------------------------------------------------------------------------------------------------------
card_is refuse 1
fetch "${TLS12[@]}"
expect "connections that the card refused" "$(got cpu)" = 1
fetch "${TLS12[@]}"
say "after a refusal: kept by the server $(withheld no_room)"
stopped
serve_with_nic auto kernel # a new server has not learned that yet
card_is room 2
viewers=()
for number in 1 2 3 4; do FROM=elsewhere begin "room-$number" "${TLS12[@]}" "$S/film-001.mp4"; viewers+=("$VIEWER"); done
say "room for 2 of 4: on the card $(card_sessions 0), refused $(card_stat 0 lab_refused), kept by the server $(withheld no_room)"
expect "connections on the card" "$(card_sessions 0)" = 2
for number in 1 2 3 4; do
  go_on "room-$number" "${viewers[number - 1]}" || wrong "a viewer was cut off: $(cat "/tmp/said-room-$number")"
  cmp "/tmp/got-room-$number" "$FILM" || wrong "a film is not right with room for 2 of 4"
done
expect "connections over devices that are not known" "$(withheld unknown_device)" = 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
card_is room 4294967295
wire_clean 1
