#!/bin/bash
# shows: a card's share of new connections follows the card's own counters: it falls while much is lost after the card, and rises again when nothing is lost. TLS 1.2 comes first only for viewers who are served through the card
# machines long: plain newest
# deadline: 420
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-001.mp4
S=https://10.9.1.1:8443/film-001.mp4
ADDRESSES=250 # of viewers: each comes once, so that none is known to have a lossy path

cards_made 1
for ((address = 2; address < ADDRESSES; address++)); do printf 'addr add 10.9.1.%s/16 dev card1\n' "$address"; done >/tmp/addresses
ip -n elsewhere -batch /tmp/addresses
ip addr add 10.9.1.1/16 dev card0
wire_watched 1 "$FILM"
modprobe tls
printf '[tls]\nnic = "on"\nversions = "card"\n' >/tmp/nic.toml
serve --route auto --disk cached --config /tmp/nic.toml --listen 0.0.0.0:8443
NEXT=2
viewer() { # CURL-ARGUMENTS...: another viewer of a MiB and a half, with all that curl offers: TLS 1.3 and 1.2
  elsewhere curl -sSk --interface "10.9.1.$NEXT" --range 0-1572863 "$@" "$S" | cmp -n 1572864 - "$FILM" || wrong "a film is not right"
  NEXT=$((NEXT + 1))
  expect "viewers, of all addresses" "$NEXT" '<' "$ADDRESSES"
}

# --- TLS 1.2 where a card takes it ---------------------------------------------------------------------------------------------------

viewer
expect "connections that the card got, of viewers who speak both versions" "$(card_stat 0 tx_tls_ctx)" = 1
viewer --tlsv1.3
expect "connections that the card got, with one of TLS 1.3 alone" "$(card_stat 0 tx_tls_ctx)" = 1
same_as "$FILM" https://127.0.0.1:8443/film-001.mp4
say "$(metrics | grep '^fullbore_handshakes_total' | paste -sd ' ')"

# --- the share -------------------------------------------------------------------------------------------------------------------------
card_is lose 20
falls() { viewer; [ "$(withheld share)" -ge 3 ]; }
eventually 150 falls
say "with losses: $((NEXT - 2)) viewers; on the card $(got card), kept for their share $(withheld share)"
card_said 0
expect "packets out of order" "$(card_stat 0 tx_tls_ooo)" '>' 0
card_is lose 0
# A share below all keeps at least one in sixteen, and one that has just come back gets all again.
comes_back() {
  local before number
  before=$(withheld share)
  for ((number = 0; number < 6; number++)); do viewer; done
  [ "$(withheld share)" = "$before" ]
}
eventually 200 comes_back
say "without losses again: $((NEXT - 2)) viewers; on the card $(got card), kept for their share $(withheld share)"
card_said 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
wire_clean 1
