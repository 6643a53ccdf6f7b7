#!/bin/bash
# shows: the kernel's fault because of which cards get no keys over a bond: when the encrypting card is taken down by hand, the rest leaves unencrypted
# machines: plain
# machines long: newest
# deadline: 240
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

# The smallest reproducer: two cards, a bond, a program that gives the kernel keys (lab/programs/keys.c), and no server. Read first:
# docs/notes/bond-offload.md. The scenario reports what this kernel does, and passes either way, because a later kernel may be fixed.
FILM=/library/film-001.mp4
ADDRESSES=no
cards_made 2
modprobe bonding max_bonds=0

bonded() { # MODE...
  local end leg
  for end in "ip" "ip -n elsewhere"; do $end link add bond0 type bond miimon 50 "$@"; done
  for leg in 0 2; do ip link set "card$leg" down; ip link set "card$leg" master bond0; done
  for leg in 1 3; do ip -n elsewhere link set "card$leg" down; ip -n elsewhere link set "card$leg" master bond0; done
  ip addr add 10.9.0.1/24 dev bond0
  ip -n elsewhere addr add 10.9.0.2/24 dev bond0
  ip link set bond0 up
  ip -n elsewhere link set bond0 up
  eventually 30 elsewhere ping -c 1 -W 1 10.9.0.1
}
unbonded() { ip link del bond0; ip -n elsewhere link del bond0; }
sealing_card() { local card; for card in 0 2; do if [ "$(card_sessions "$card")" = 1 ]; then echo "$card"; fi; done; }

through() { # WHAT: sends half of a film, does WHAT to the encrypting card, and sends the rest
  rm -f /tmp/keys-waits /tmp/keys-go
  elsewhere keys receive 7 "$FILM" >/tmp/received &
  local receiver=$!
  keys send 10.9.0.2 7 "$FILM" 2097152 &
  local sender=$! end
  eventually 30 test -e /tmp/keys-waits
  ON=$(sealing_card)
  if [ -n "$ON" ]; then "$1" "$ON"; fi
  sleep 1
  : >/tmp/keys-go
  for end in "$receiver" "$sender"; do wait "$end" || wrong "the connection broke ($1)"; done
  RECORDS=$(awk '{ print $2 }' /tmp/received) CLEAR=$(awk '{ print $4 }' /tmp/received)
  expect "records of the film" "$RECORDS" = 256
}
nothing() { :; }
set_down() { ip link set "card$1" down; }

bonded mode 802.3ad xmit_hash_policy layer3+4 lacp_rate fast
through nothing
[ -n "$ON" ] || wrong "the kernel handed no connection over the bond to a card"
say "$(uname -r), 802.3ad: card$ON sealed, $CLEAR of $RECORDS records in clear"
expect "records in clear while the bond is whole" "$CLEAR" = 0
through set_down
say "$(uname -r), 802.3ad, the card that sealed set down: $CLEAR of $RECORDS records in clear"
unbonded

bonded mode active-backup
through set_down
say "$(uname -r), active-backup, the card that sealed (${ON:-none, the CPU did}) set down: $CLEAR of $RECORDS records in clear"
unbonded
