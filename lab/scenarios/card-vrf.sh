#!/bin/bash
# shows: a card that encrypts, in a VRF: the server looks up in the VRF's routes, not in the main table, whether a connection leaves by this card, so the card gets the keys; every byte is right, and none is unencrypted on the wire
# machines: plain
# machines long: newest
# deadline: 180
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-001.mp4
S=https://10.9.0.1:8443
cards_made 1
modprobe tls
modprobe vrf
ip link add vrf0 type vrf table 10
ip link set vrf0 up
ip link set card0 master vrf0 # its routes move to the VRF's table
sysctl -qw net.ipv4.tcp_l3mdev_accept=1
if ip route show table main | grep -q '^10\.9\.0\.'; then wrong "the main table still has a route to the viewer"; fi
wire_watched 1 "$FILM"

serve_with_nic on auto
elsewhere curl -sSk "${TLS12[@]}" "$S/film-001.mp4" | cmp - "$FILM" || wrong "the film is not right"
expect "connections that the card got" "$(card_stat 0 tx_tls_ctx)" = 1
expect "the same, as the server counted" "$(got card)" = 1
for reason in no_card unknown_device; do expect "connections that were kept ($reason)" "$(withheld "$reason")" = 0; done
expect "faults" "$(metric tasks_panicked_total)" = 0
card_said 0
stopped
wire_clean 1
