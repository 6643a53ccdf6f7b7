#!/bin/bash
# shows: four nodes are there, each with its CPU, memory, disk and network card, and viewers are served from any of the disks, on each route
# machines: four-nodes
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

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

# One library out of four disks.
umount /library
mount -t tmpfs tmpfs /library
for node in 0 1 2 3; do
  mkdir "/library/node$node"
  mount -o ro,noatime "/dev/nvme${node}n1" "/library/node$node"
done

# A worker per CPU, so one per node; each accepts what the kernel gives it.
served_by() { # ROUTE
  local node
  serve_by "$1" --disk cached --listen 127.0.0.1:8443
  for node in 0 1 2 3; do same_as "/library/node$node/film-00$node.mp4" "https://127.0.0.1:8443/node$node/film-00$node.mp4"; done
  expect "workers on a CPU of their own" \
    "$(for task in /proc/"$SERVER"/task/*; do awk '/Cpus_allowed_list/ { print $2 }' "$task/status"; done | grep -cx '[0-3]')" '>=' 4
  if [ "$1" = kernel ]; then expect "bytes that the kernel sent" "$(metric sendfile_bytes_total)" = $((4 * 4194304)); fi
  expect "faults" "$(metric tasks_panicked_total)" = 0
}

served_by userspace
for task in /proc/"$SERVER"/task/*; do
  say "$(cat "$task/comm"): CPUs $(awk '/Cpus_allowed_list/ { print $2 }' "$task/status"), memory on nodes $(awk '/Mems_allowed_list/ { print $2 }' "$task/status")"
done
stopped
served_by kernel
stopped
