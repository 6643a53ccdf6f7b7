# shellcheck shell=bash
# For scenarios on the machine four-nodes: a library with a folder on each node's disk, and a way for viewers to arrive on each card.

node_of_disk() { cat "/sys/block/nvme$1n1/device/device/numa_node"; } # NUMBER
node_of_card() { cat "/sys/class/net/eth$1/device/../numa_node"; } # NUMBER

# /library/node0 to node3. The numbers are those of the disks: the kernel finds disks in an order of its own.
library_of_four_disks() {
  local disk
  umount /library
  mount -t tmpfs tmpfs /library
  for disk in 0 1 2 3; do
    mkdir "/library/node$disk"
    mount -o ro,noatime "/dev/nvme${disk}n1" "/library/node$disk"
  done
}

# The emulated cards have no network between them, so each gets two macvlans that exchange packets through it: one for the server (10.9.CARD.1),
# which is on the node of its card, and one for viewers elsewhere (10.9.CARD.2).
cards_reached() {
  local card
  ip netns add elsewhere
  for card in 0 1 2 3; do
    ip link set "eth$card" up
    ip link add "near$card" link "eth$card" type macvlan mode bridge
    ip link add "far$card" link "eth$card" type macvlan mode bridge
    ip link set "far$card" netns elsewhere
    ip addr add "10.9.$card.1/24" dev "near$card"
    ip -n elsewhere addr add "10.9.$card.2/24" dev "far$card"
    ip link set "near$card" up
    ip -n elsewhere link set "far$card" up
  done
  for card in 0 1 2 3; do eventually 30 elsewhere ping -c 1 -W 1 "10.9.$card.1"; done
}
