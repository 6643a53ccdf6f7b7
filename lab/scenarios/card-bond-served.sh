#!/bin/bash
# shows: over a bond of cards that encrypt, the kernel route does the encryption itself: each card is taken down in turn, every byte is right, and none is unencrypted on a wire
# machines: plain
# machines long: newest
# deadline: 180
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-001.mp4

ADDRESSES=no
cards_made 3
modprobe bonding max_bonds=0
for end in "ip" "ip -n elsewhere"; do $end link add bond0 type bond miimon 50 mode 802.3ad xmit_hash_policy layer3+4 lacp_rate fast; done
for leg in 0 2; do ip link set "card$leg" master bond0; done
for leg in 1 3; do ip -n elsewhere link set "card$leg" master bond0; done
ip addr add 10.9.0.1/24 dev bond0
ip -n elsewhere addr add 10.9.0.2/24 dev bond0
ip addr add 10.9.2.1/24 dev card4
ip -n elsewhere addr add 10.9.2.2/24 dev card5
for link in bond0 card4; do ip link set "$link" up; done
for link in bond0 card5; do ip -n elsewhere link set "$link" up; done
elsewhere sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_rmem' # most of a film is still to be sent when a viewer is slow
eventually 30 elsewhere ping -c 1 -W 1 10.9.0.1

serve_by kernel --disk cached --listen 0.0.0.0:8443
eventually 20 grep -q '^cards' /tmp/fullbore.log
expect "start lines about the bond" "$(grep -c '^cards *bond0: .*card0 and card2' /tmp/fullbore.log)" = 1
say "$(grep '^cards' /tmp/fullbore.log)"
wire_watched 1 "$FILM"
wire_watched 3 "$FILM"

through() { # CARD
  FROM=elsewhere begin film-001 "${TLS12[@]}" https://10.9.0.1:8443/film-001.mp4
  ip link set "card$1" down
  sleep 1
  go_on film-001 "$VIEWER" || wrong "a viewer was cut off when card$1 was set down: $(cat /tmp/said-film-001)"
  cmp /tmp/got-film-001 "$FILM" || wrong "the film is not right (card$1 set down)"
  ip link set "card$1" up
  sleep 2
}
through 0
through 2

# With the feature off the kernel gets the keys and encrypts on the CPU; once it is on, the next connection's keys are withheld again.
feature() { for card in 0 2; do ethtool -K "card$card" tls-hw-tx-offload "$1"; done; }
feature off
through 0
expect "connections that the kernel sealed while the feature was off" "$(metric 'connections_by_route_total{route="kernel"}')" = 1
feature on
elsewhere curl -sSk "${TLS12[@]}" https://10.9.0.1:8443/film-001.mp4 | cmp - "$FILM" || wrong "the film is not right"
expect "connections whose keys were kept" "$(withheld bond)" = 3
expect "connections that the server sealed" "$(metric 'connections_by_route_total{route="userspace"}')" = 3
for card in 0 2; do expect "connections that card$card got" "$(card_stat "$card" tx_tls_ctx)" = 0; done
wire_clean 1
wire_clean 3

# Another card, in no bond, gets keys; then it joins the bond, and the next connection's keys are withheld.
elsewhere curl -sSk "${TLS12[@]}" https://10.9.2.1:8443/film-001.mp4 | cmp - "$FILM" || wrong "the film is not right over card4"
expect "connections that card4 got" "$(card_stat 4 tx_tls_ctx)" = 1
ip addr flush dev card4
ip link set card4 down
ip link add bond1 type bond mode active-backup miimon 50
ip link set card4 master bond1
ip addr add 10.9.2.1/24 dev bond1
ip link set bond1 up
eventually 30 elsewhere ping -c 1 -W 1 10.9.2.1
elsewhere curl -sSk "${TLS12[@]}" https://10.9.2.1:8443/film-001.mp4 | cmp - "$FILM" || wrong "the film is not right over bond1"
expect "connections whose keys were kept, with the new bond" "$(withheld bond)" = 4
expect "connections that card4 got" "$(card_stat 4 tx_tls_ctx)" = 1
expect "connections over devices that are not known" "$(withheld unknown_device)" = 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
