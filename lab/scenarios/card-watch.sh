#!/bin/bash
# shows: a viewer whose path loses much is told to connect again, and its next connection is encrypted by the server; others stay with the card
# machines: plain
# machines long: newest
# deadline: 180
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-001.mp4
S=https://10.9.0.1:8443

cards_made 1
ip -n elsewhere addr add 10.9.0.3/24 dev card1
wire_watched 1 "$FILM"
serve_by kernel --disk cached --listen 0.0.0.0:8443

# Without losses: three films over one connection.
three=("$S/film-001.mp4" "$S/film-001.mp4" "$S/film-001.mp4")
cat "$FILM" "$FILM" "$FILM" >/tmp/three
fetch() { # CURL-ARGUMENTS...
  elsewhere curl -sSk "${TLS12[@]}" -w '%{stderr}%{num_connects} ' -D /tmp/heads "$@" "${three[@]}" 2>/tmp/connects | cmp - /tmp/three ||
    wrong "three films are not right: curl $*"
}
fetch
settled
again=$(metric card_tls_retransmitted_bytes_total)
say "without losses: $again bytes sent again"
# On a machine that is very slow, TCP may take what is late for lost. A hundredth of a MiB is what costs too much.
if [ "$again" -le 10485 ]; then
  expect "connections that three films took" "$(cat /tmp/connects)" is "1 0 0 "
  expect "connections that cost too much" "$(metric 'card_tls_costly_total{reason="bytes"}')" = 0
fi
stopped
serve_by kernel --disk cached --listen 0.0.0.0:8443

# One in thirty is lost: the second answer says that the connection ends, and the third film comes over one that the server encrypts.
card_is lose 30
before=$(card_stat 0 tx_tls_ctx)
fetch
card_is lose 0
say "costly: $(metric 'card_tls_costly_total{reason="bytes"}'); sent again on cards: $(metric card_tls_retransmitted_bytes_total) bytes; kept: $(withheld lossy_path)"
expect "connections that three films took with losses" "$(cat /tmp/connects)" is "1 0 1 "
expect "answers that said so" "$(grep -ci '^connection: close' /tmp/heads)" = 1
expect "connections that cost too much" "$(metric 'card_tls_costly_total{reason="bytes"}')" = 1
expect "connections that the card got" "$(($(card_stat 0 tx_tls_ctx) - before))" = 1
expect "connections of a lossy path that were kept" "$(withheld lossy_path)" = 1

# Another viewer's path is another.
fetch --interface 10.9.0.3
expect "connections that the card got, with another viewer's" "$(($(card_stat 0 tx_tls_ctx) - before))" = 2
card_said 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
wire_clean 1
