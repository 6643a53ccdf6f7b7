#!/bin/bash
# shows: four nodes are found, each with its CPU, memory, disk and network card; viewers are served from any of the disks, on each route, by the node of the card on which they arrive and from its memory, or from the memory of the disk's node; the moves that a receiver notices; with --silo disk no byte from a disk is sent by another silo
# machines: four-nodes
# deadline: 600
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash
# shellcheck source=lab/guest/four-nodes.bash
. /lab/guest/four-nodes.bash

expect "nodes" "$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l)" = 4
for node in 0 1 2 3; do
  expect "CPUs of node $node" "$(cat /sys/devices/system/node/node$node/cpulist)" is "$node"
  expect "memory of node $node" "$(awk '/MemTotal/ { print $4 }' /sys/devices/system/node/node$node/meminfo)" '>' 200000
done

# Names follow the order of discovery, so this checks the node that each device states.
nodes_of() { for path in "$@"; do cat "$path"; done | sort -n | paste -sd ' '; }
expect "nodes of the disks" "$(nodes_of /sys/block/nvme*n1/device/device/numa_node)" is "0 1 2 3"
expect "nodes of the network cards" "$(nodes_of /sys/class/net/eth*/device/../numa_node)" is "0 1 2 3"
for disk in /sys/block/nvme*n1; do say "$(basename "$disk"): node $(cat "$disk/device/device/numa_node")"; done
for card in /sys/class/net/eth*; do say "$(basename "$card"): node $(cat "$card/device/../numa_node")"; done

library_of_four_disks
cards_reached

# The server's memory by the node that it was requested from: the policy of a mapping in numa_maps, and where its pages are. Prints NODE PAGES-THERE PAGES.
placed() { # PATTERN
  awk -v pattern="$1" '$0 ~ pattern && match($2, /^prefer:[0-9]+$/) {
    node = substr($2, 8)
    for (i = 3; i <= NF; i++) if ($i ~ /^N[0-9]+=/) { split(substr($i, 2), part, "="); all[node] += part[2]; if (part[1] == node) there[node] += part[2] }
  } END { for (node = 0; node < 4; node++) print node, there[node] + 0, all[node] + 0 }' "/proc/$SERVER/numa_maps"
}
on_its_node() { # WHAT PATTERN: at least 99% of the pages of each node's memory
  local node there all
  while read -r node there all; do
    say "$1 of node $node: $there of $all pages are there"
    expect "pages of the $1 of node $node" "$all" '>=' 16
    expect "pages of the $1 of node $node that are there" "$there" '>=' $(((all * 99 + 99) / 100))
  done < <(placed "$2")
}
home() { metric "connections_by_home_total{home=\"$1\"}"; }

# A worker per CPU, so one per node. Each film is fetched over each card, each time on a connection of its own. After three rounds the hot sets
# have them.
served_by() { # ROUTE ROUNDS ARGUMENTS...
  local route=$1 rounds=$2 node card round own all films; shift 2
  # A node that is full of cached files has nothing left to prefer: start with none, and evict before another node is used (docs/numa.md).
  rm -f /tmp/film-*; sync; echo 3 >/proc/sys/vm/drop_caches
  echo 1 >/proc/sys/vm/zone_reclaim_mode
  say "free memory of each node in KiB: $(awk '/MemFree/ { print $4 }' /sys/devices/system/node/node*/meminfo | paste -sd ' ')"
  serve_by "$route" --listen 0.0.0.0:8443 "$@"
  eventually 30 grep -q '^admin ' /tmp/fullbore.log # the start lines about silos are above it
  grep '^silo' /tmp/fullbore.log | while read -r line; do say "$line"; done
  for card in 0 1 2 3; do
    expect "silo of eth$card in the start lines" "$(grep -c "^silo .*node $(node_of_card "$card");.*eth$card" /tmp/fullbore.log)" = 1
  done
  for ((round = 0; round < rounds; round++)); do
    for card in 0 1 2 3; do
      films=()
      for node in 0 1 2 3; do films+=(-o "/tmp/film-$node" "https://10.9.$card.1:8443/node$node/film-00$node.mp4"); done
      elsewhere curl -sSk --fail -H "Connection: close" "${films[@]}"
      for node in 0 1 2 3; do
        cmp "/tmp/film-$node" "/library/node$node/film-00$node.mp4" || wrong "film 00$node over card $card is not right ($route)"
      done
    done
  done
  settled
  own=$(home own) all=$(metric connections_accepted_total)
  say "$route: $own of $all connections were served by the node of their card; other: $(home other), unknown: $(home unknown)"
  expect "connections" "$all" = $((16 * rounds))
  expect "connections on the node of their card" "$own" '>=' $(((all * 99 + 99) / 100))
  expect "workers on a CPU of their own" \
    "$(for task in /proc/"$SERVER"/task/*; do awk '/Cpus_allowed_list/ { print $2 }' "$task/status"; done | grep -cx '[0-3]')" '>=' 4
  on_its_node buffers ' anon='
  expect "faults" "$(metric tasks_panicked_total)" = 0
}

# Memory at the disk: the node of card 0 serves a film from a disk of another node, DISK.
here=$(node_of_card 0)
for disk in 0 1 2 3; do
  there=$(node_of_disk "$disk")
  [ "$there" = "$here" ] || break
done
at_disk() { # WHAT PATTERN ARGUMENTS...: pages of WHAT have to be on the disk's node
  local what=$1 pattern=$2 film=/node$disk/film-00$disk.mp4 round node on all; shift 2
  sync; echo 3 >/proc/sys/vm/drop_caches
  serve_by userspace --listen 0.0.0.0:8443 --silo memory-at-disk "$@"
  eventually 30 grep -q '^silos     memory-at-disk' /tmp/fullbore.log
  for ((round = 0; round < 6; round++)); do
    elsewhere curl -sSk --fail -o /tmp/film "https://10.9.0.1:8443$film"
    cmp /tmp/film "/library$film" || wrong "film 00$disk is not right with memory at the disk"
    sleep 1
  done
  settled
  while read -r node on all; do
    say "memory at the disk: $what of node $node: $on of $all pages are there (card on node $here, disk on node $there)"
    if [ "$node" = "$there" ]; then
      expect "pages of the $what at the disk" "$all" '>=' 16
      expect "pages of the $what at the disk that are there" "$on" '>=' $(((all * 99 + 99) / 100))
    elif [ "$node" != "$here" ]; then
      expect "pages of the $what of node $node, which has no part in it" "$all" = 0
    fi
  done < <(placed "$pattern")
  expect "connections on the node of their card" "$(home own)" = 6
  expect "bytes from the disk's node" "$(metric "path_bytes_total{disk=\"$there\",worker=\"$here\",card=\"$here\"}")" '>=' $((3 * 4194304))
  stopped
}
rm -f /tmp/film-*
at_disk "buffers" ' anon=' --disk direct --off registered # a registered buffer has its pages before it is used
at_disk "hot set" memfd:fullbore-hot --disk auto

# The effect of a move at the receiver: segments that arrive out of order, on connections that take films from all disks by turns. With --silo disk
# each film is on another node than the one before, and is as long as a connection has to stay.
received() { elsewhere nstat -asz "$1" | awk -v name="$1" '$1 == name { print $2 }'; } # COUNTER
# Bytes that came from a disk, and those of them that a worker of another silo sent.
from_disks() {
  metrics | awk '/^fullbore_path_bytes_total/ && match($1, /disk="[0-9]+"/) {
    disk = substr($1, RSTART + 6, RLENGTH - 7); match($1, /worker="[0-9]+"/); worker = substr($1, RSTART + 8, RLENGTH - 9)
    all += $2; if (disk != worker) other += $2
  } END { printf "%d %d\n", all, other }'
}
reordered() { # SILO: sets MOVES, SEGMENTS, LATE, FROM_DISKS and ACROSS
  local card round node films segments late
  sync; echo 3 >/proc/sys/vm/drop_caches
  serve_by userspace --listen 0.0.0.0:8443 --silo "$1" --disk cached
  segments=$(received TcpInSegs) late=$(received TcpExtTCPOFOQueue)
  for card in 0 1 2 3; do
    films=()
    for ((round = 0; round < 4; round++)); do
      for node in 0 1 2 3; do films+=(-o "/tmp/film-$round-$node" "https://10.9.$card.1:8443/node$node/film-00$node.mp4"); done
    done
    elsewhere curl -sSk --fail "${films[@]}"
    for node in 0 1 2 3; do
      for ((round = 0; round < 4; round++)); do
        cmp "/tmp/film-$round-$node" "/library/node$node/film-00$node.mp4" || wrong "film 00$node over card $card is not right (--silo $1)"
      done
    done
    rm -f /tmp/film-*
  done
  SEGMENTS=$(($(received TcpInSegs) - segments)) LATE=$(($(received TcpExtTCPOFOQueue) - late))
  MOVES=$(metric connections_moved_total)
  read -r FROM_DISKS ACROSS < <(from_disks)
  say "--silo $1: of $FROM_DISKS bytes from disks, workers of other silos sent $ACROSS"
  say "--silo $1: $MOVES moves; of $SEGMENTS segments at the receiver $LATE were out of order"
  stopped
}
reordered network
expect "moves" "$MOVES" = 0
reordered disk
expect "moves" "$MOVES" '>=' 32
expect "bytes from disks" "$FROM_DISKS" '>=' 4194304
expect "bytes from disks that workers of other silos sent" "$ACROSS" = 0

served_by userspace 3 --disk auto
on_its_node "hot set" memfd:fullbore-hot
stopped
served_by userspace 1 --disk cached
stopped
served_by kernel 1 --disk cached
expect "bytes that the kernel sent" "$(metric sendfile_bytes_total)" = $((16 * 4194304))
stopped
