#!/bin/bash
# shows: on four nodes, with --silo network and disk, a disk that fails with EIO ends the viewers of its own films only: films on the other three nodes' disks continue to the last byte, new viewers are served over each card, and the failed disk's films are served again when it is back
# machines long: four-nodes
# deadline long: 600
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash
# shellcheck source=lab/guest/four-nodes.bash
. /lab/guest/four-nodes.bash

# So little is in flight to a viewer that the server has to read from disk while it watches.
for side in rmem wmem; do echo '4096 65536 131072' >"/proc/sys/net/ipv4/tcp_$side"; done
library_of_four_disks
cards_reached
elsewhere sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_rmem'

# One disk is behind a device mapper, which the server sees through to its node.
BAD=2
GOOD=(0 1 3)
modprobe dm_mod
SECTORS=$(cat "/sys/block/nvme${BAD}n1/size")
umount "/library/node$BAD"
dmsetup create bad --noudevsync --noudevrules --readonly --table "0 $SECTORS linear /dev/nvme${BAD}n1 0"
mount -o ro,noatime "/dev/dm-$(dmsetup info -c --noheadings -o minor bad)" "/library/node$BAD"
mkdir /films # correct copies, to compare with, whatever happens to that disk
mount -o ro,noatime "/dev/nvme0n1" /films
disk_becomes() { # TARGET ARGUMENTS...
  dmsetup suspend --noudevsync --nolockfs --noflush bad
  dmsetup reload --noudevsync --readonly --table "0 $SECTORS $*" bad
  dmsetup resume --noudevsync --noudevrules bad
}
url() { echo "https://10.9.$1.1:8443/node$2/film-$3.mp4"; } # CARD DISK FILM
served_over_each_card() { # DISK...: a film of each, on connections of their own
  local card disk films
  for card in 0 1 2 3; do
    films=()
    for disk in "$@"; do films+=(-o "/tmp/film-$disk" "$(url "$card" "$disk" "02$card")"); done
    elsewhere curl -sSk --fail -H "Connection: close" "${films[@]}" || wrong "a film was not served over card $card ($SILO)"
    for disk in "$@"; do cmp "/tmp/film-$disk" "/films/film-02$card.mp4" || wrong "a film of disk $disk over card $card is not right ($SILO)"; done
  done
}

through_the_failure() { # SILO
  SILO=$1
  local card disk film sick=() healthy=() viewer
  echo 3 >/proc/sys/vm/drop_caches
  serve_by userspace --listen 0.0.0.0:8443 --silo "$SILO" --disk direct
  eventually 30 grep -q '^admin ' /tmp/fullbore.log
  expect "silo of the disk behind a device mapper" "$(grep -c "^silo .*node $(node_of_disk "$BAD");.*/library" /tmp/fullbore.log)" = 1
  # Over each card a viewer of the disk that is going to fail, and one of another.
  for card in 0 1 2 3; do
    for disk in "$BAD" "${GOOD[card % 3]}"; do
      film=01$card-$disk
      FROM=elsewhere begin "$film" "$(url "$card" "$disk" "01$card")"
      if [ "$disk" = "$BAD" ]; then sick+=("$film $VIEWER"); else healthy+=("$film $VIEWER"); fi
    done
  done
  disk_becomes error
  for viewer in "${sick[@]}"; do
    # shellcheck disable=SC2086 # two words
    if go_on $viewer; then wrong "curl had nothing to complain about: $viewer ($SILO)"; fi
    film=/tmp/got-${viewer% *}
    expect "bytes of a film on the disk that fails" "$(stat -c %s "$film")" '<' 4194304
    cmp -n "$(stat -c %s "$film")" "$film" "/films/film-${viewer:0:3}.mp4" || wrong "a wrong byte: $viewer ($SILO)"
  done
  eventually 30 has_ended file_io 4
  served_over_each_card "${GOOD[@]}" # by connections that begin while it fails
  if elsewhere curl -sk --fail -o /dev/null "$(url 0 "$BAD" 030)"; then wrong "a film was served from a disk that fails ($SILO)"; fi
  for viewer in "${healthy[@]}"; do
    # shellcheck disable=SC2086
    go_on $viewer || wrong "a viewer of another silo's disk was cut off: $viewer, $(cat "/tmp/said-${viewer% *}") ($SILO)"
    cmp "/tmp/got-${viewer% *}" "/films/film-${viewer:0:3}.mp4" || wrong "a film of another silo's disk is not right: $viewer ($SILO)"
  done
  disk_becomes linear "/dev/nvme${BAD}n1" 0
  settled # the server opens the disk again within a second
  served_over_each_card "$BAD"
  say "--silo $SILO: the disk of node $(node_of_disk "$BAD") failed under 4 viewers and took $(ended file_io) connections, its own; 4 viewers of other disks got every byte, and so did 12 new ones; $(metric connections_moved_total) moves"
  expect "connections that a disk ended" "$(ended file_io)" '<=' 5 # four, and the one that asked meanwhile
  expect "faults" "$(metric tasks_panicked_total)" = 0
  if [ "$SILO" = disk ]; then expect "moves" "$(metric connections_moved_total)" '>=' 12; else expect "moves" "$(metric connections_moved_total)" = 0; fi
  stopped
  rm -f /tmp/film-* /tmp/got-*
}
through_the_failure network
through_the_failure disk
