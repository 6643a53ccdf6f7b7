#!/bin/bash
# shows: where the kernel keeps the parts of a connection that has moved to its disk's node: the memory for sent data, its queue at the card and in the pacer, and the CPU that handles its acknowledgements, with receive flow steering and without
# machines long: four-nodes
# deadline long: 600
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash
# shellcheck source=lab/guest/four-nodes.bash
. /lab/guest/four-nodes.bash

library_of_four_disks

# A card with a queue for each node's CPU, each with a pacer of its own, and whose interrupts all go to CPU 0.
ip netns add elsewhere
ip link add near numtxqueues 4 numrxqueues 4 type veth peer name far numtxqueues 4 numrxqueues 4 netns elsewhere
ip addr add 10.9.0.1/24 dev near
ip -n elsewhere addr add 10.9.0.2/24 dev far
for queue in 0 1 2 3; do
  printf '%x' $((1 << queue)) >"/sys/class/net/near/queues/tx-$queue/xps_cpus"
  printf 1 >"/sys/class/net/near/queues/rx-$queue/rps_cpus"
done
modprobe -a sch_fq tcp_bbr
tc qdisc replace dev near root handle 1: mq
for queue in 1 2 3 4; do tc qdisc replace dev near parent "1:$queue" fq; done
ip link set near up
ip -n elsewhere link set far up
eventually 30 elsewhere ping -c 1 -W 1 10.9.0.1

by_queue() { tc -s qdisc show dev near | awk '$2 == "fq" { sub(/.*:/, "", $5); queue = $5 } queue && $1 == "Sent" { print queue - 1, $2; queue = "" }' | sort -n | awk '{ print $2 }' | paste -sd ' '; }
# Pages that were taken on each node by a CPU of that node, and by one of another.
by_node() { local node; for node in 0 1 2 3; do awk -v name="$1" '$1 == name { print $2 }' "/sys/devices/system/node/node$node/numastat"; done | paste -sd ' '; } # local_node|other_node
grown() { echo "$1 $2" | awk '{ for (i = 1; i <= 4; i++) printf "%d ", $(i + 4) - $i; printf "\n" }'; }
part() { echo "$1" | awk -v at="$(($2 + 1))" '{ print $at }'; } # NUMBERS NODE
total() { echo "$1" | awk '{ print $1 + $2 + $3 + $4 }'; }
steered() { # ENTRIES: receive flow steering, 0 for none
  local queue
  echo "$1" >/proc/sys/net/core/rps_sock_flow_entries
  for queue in 0 1 2 3; do echo $(($1 / 4)) >"/sys/class/net/near/queues/rx-$queue/rps_flow_cnt"; done
}

FILMS=8
FRAGMENT=32768 # what a socket takes at once for what it sends (SKB_FRAG_PAGE_ORDER, net/core/sock.c)
moved_to() { # DISK PERCENT: one connection takes films of this disk; so much of them has to leave by the queue of its node
  local node films=() film queues local_pages other_pages bytes=$((FILMS * 4194304))
  node=$(node_of_disk "$1")
  for ((film = 10; film < 10 + FILMS; film++)); do films+=(-o /dev/null "https://10.9.0.1:8443/node$1/film-0$film.mp4"); done
  queues=$(by_queue) local_pages=$(by_node local_node) other_pages=$(by_node other_node)
  elsewhere taskset -c $(((node + 1) % 4)) curl -sSk --fail "${films[@]}"
  queues=$(grown "$queues" "$(by_queue)") local_pages=$(grown "$local_pages" "$(by_node local_node)") other_pages=$(grown "$other_pages" "$(by_node other_node)")
  say "$HOW, films of node $node: bytes by queue $queues; allocations by a CPU of the node $local_pages, of another $other_pages"
  expect "bytes by all queues" "$(total "$queues")" '>=' "$bytes"
  expect "percent of the bytes by the queue of node $node" $((100 * $(part "$queues" "$node") / $(total "$queues"))) '>=' "$2"
  expect "allocations on node $node by its CPU" "$(part "$local_pages" "$node")" '>=' $((bytes / FRAGMENT))
  expect "allocations on a node by a CPU of another" $((100 * $(total "$other_pages"))) '<=' "$(total "$local_pages")"
}
handled_by() { # DISK CPU: of the connection in the middle of a film
  FROM=elsewhere begin "$1" "https://10.9.0.1:8443/node$1/film-03$1.mp4"
  expect "the CPU of its last packet ($HOW, film of node $(node_of_disk "$1"))" "$(perl /lab/guest/sockets.pl "$SERVER" 10.9.0.2)" is "$2"
  go_on "$1" "$VIEWER"
  cmp "/tmp/got-$1" "/library/node$1/film-03$1.mp4" || wrong "a film is not right ($HOW)"
  eventually 30 has_left
}
has_left() { [ "$(metric connections)" = 0 ]; }

# Without flow steering, acknowledgements come to the card's CPU, which sends by its own queue if nothing else of the connection is under way.
for way in "cubic 0 50" "cubic 1024 99" "bbr 1024 99"; do
  read -r control entries percent <<<"$way"
  HOW="$control, flow steering $([ "$entries" = 0 ] && echo off || echo on)"
  printf '[net]\ncongestion_control = "%s"\n' "$control" >/tmp/control.toml
  serve_by userspace --config /tmp/control.toml --listen 0.0.0.0:8443 --silo disk --disk direct
  eventually 30 grep -q '^admin ' /tmp/fullbore.log
  steered "$entries"
  for disk in 0 1 2 3; do moved_to "$disk" "$percent"; done
  for disk in 0 1 2 3; do
    node=$(node_of_disk "$disk")
    if [ "$node" != 0 ]; then handled_by "$disk" "$([ "$entries" = 0 ] && echo 0 || echo "$node")"; fi
  done
  moved=$(metric connections_moved_total)
  say "$HOW: $moved moves; the CPU of a connection's packets was $([ "$entries" = 0 ] && echo "the card's" || echo "that of the film's node")"
  expect "moves" "$moved" '>=' 3
  expect "faults" "$(metric tasks_panicked_total)" = 0
  stopped
done
