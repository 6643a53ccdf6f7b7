#!/bin/bash
# shows: which port of a bond sends: with LACP only the hash decides, in spite of marks, queue_id and XPS; balance-rr and active-backup follow queue_id
# machines: plain newest
# deadline: 200
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

fetch() { # WHAT: half a megabyte on each of 24 connections
  local number parts=()
  for ((number = 0; number < 24; number++)); do parts+=(-o "/tmp/part-$number" "https://$SERVICE:8443/film-001.mp4"); done
  elsewhere curl -sSk --fail -H "Connection: close" --range 0-499999 "${parts[@]}"
  for ((number = 0; number < 24; number++)); do cmp -n 500000 "/tmp/part-$number" /library/film-001.mp4 || wrong "film 001 is not right ($1)"; done
}

# --- the guide's bond of four ports, eth0 to eth3 --------------------------------------------------------------------------------

SERVICE=192.0.2.10
modprobe bonding max_bonds=0 # systemd's setting; without it, the module makes a bond0 by itself
ip link set eth0 down
ip link set eth0 name card
ip netns add elsewhere
ip -n elsewhere link add bond0 type bond mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer3+4
for port in 0 1 2 3; do
  ip link add "eth$port" type veth peer name "far$port" netns elsewhere
  ip -n elsewhere link set "far$port" master bond0
done
ip -n elsewhere addr add 192.0.2.20/24 dev bond0
ip -n elsewhere link set bond0 up
follow ports.md "A bond with LACP" 1
eventually 30 elsewhere ping -c 1 -W 1 "$SERVICE"
all_ports() { grep -q '^[[:space:]]*Number of ports: 4$' /proc/net/bonding/bond0; }
eventually 30 all_ports
serve --listen "$SERVICE:8443"
fetch "the guide's bond"
SENT=()
for port in 0 1 2 3; do SENT[port]=$(cat "/sys/class/net/eth$port/statistics/tx_bytes"); done
say "the guide's bond with LACP, bytes by port: ${SENT[*]}"
# With 24 connections, a port is left out by chance once in some 250 runs.
expect "ports that sent" "$(printf '%s\n' "${SENT[@]}" | awk '$1 > 400000' | wc -l)" '>=' 3
stopped
ip netns del elsewhere
ip link del bond0

# --- what chooses the port -----------------------------------------------------------------------------------------------------------------

SERVICE=10.9.0.1
bonded() { # MODE; all connections have mark 1
  local hash=()
  case $1 in 802.3ad | balance-xor) hash=(xmit_hash_policy layer3+4) ;; esac
  bond_made "$1" "${hash[@]}"
  if [ "$1" = active-backup ]; then
    ip link set bond type bond active_slave near1
    # The viewers' end accepts packets from the other cable, too.
    ip -n elsewhere link set bond type bond active_slave far1 all_slaves_active 1
  fi
  eventually 30 elsewhere ping -c 1 -W 1 10.9.0.1
}

measure() { # WHAT: sets SHARE, the per cent of 24 connections' bytes that left by the first leg
  local before0 before1 first second
  before0=$(bytes_over 0) before1=$(bytes_over 1)
  fetch "$1"
  first=$(($(bytes_over 0) - before0)) second=$(($(bytes_over 1) - before1))
  expect "bytes in all ($1)" $((first + second)) '>=' 12000000
  SHARE=$((first * 1000 / (first + second)))
  say "$1: $first bytes by the first port, $second by the second"
}

printf '[[silos]]\ncpus = "0"\nmark = 1\n[[silos]]\ncpus = "1"\nmark = 1\n' >/tmp/silos.toml
for mode in 802.3ad balance-xor balance-rr active-backup; do
  bonded "$mode"
  serve --listen "$SERVICE:8443" --config /tmp/silos.toml --silo off
  measure "$mode, untouched"
  untouched=$SHARE

  # XPS: every queue but the last one is for no CPU.
  for queue in /sys/class/net/bond/queues/tx-*; do echo 0 >"$queue/xps_cpus"; done
  echo 3 >"/sys/class/net/bond/queues/tx-$(($(find /sys/class/net/bond/queues -name 'tx-*' | wc -l) - 1))/xps_cpus"
  # A queue for each port, and connections with mark 1 into that of the first port.
  ip link set near0 type bond_slave queue_id 1
  ip link set near1 type bond_slave queue_id 2
  measure "$mode, with XPS and queue_id"
  if [ "$mode" = active-backup ]; then expect "share of the first port by XPS, per mille" "$SHARE" '<' 10; else
    expect "share of the first port by XPS, per mille" "$SHARE" '>' 100
    expect "share of the first port by XPS, per mille" "$SHARE" '<' 900
  fi
  tc qdisc replace dev bond handle 1 root multiq
  tc filter add dev bond parent 1: handle 1 fw action skbedit queue_mapping 1
  measure "$mode, with queue_id by mark"
  case $mode in
    802.3ad | balance-xor)
      expect "share of the first port in spite of queue_id, per mille" "$SHARE" '>' 100
      expect "share of the first port in spite of queue_id, per mille" "$SHARE" '<' 900 ;;
    *) expect "share of the first port by queue_id, per mille" "$SHARE" '>=' 990 ;;
  esac
  say "$mode: per mille by the first port: $untouched untouched, $SHARE with queue_id by mark"
  expect "faults" "$(metric tasks_panicked_total)" = 0
  stopped
  bond_gone
done
