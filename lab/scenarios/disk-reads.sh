#!/bin/bash
# shows: reads of an NVMe disk by interrupts, by polling its queue and by commands to its driver deliver the same bytes; polled ones raise no interrupts
# machines: plain newest
# kernel: nvme.poll_queues=1
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

expect "queues that can be polled" "$(cat /sys/block/nvme0n1/queue/io_poll)" = 1

# Before it measures a way, the bench compares its bytes with those of pread, and ends if one differs.
measured() { # PATH
  fullbore bench disk "$1" --rounds 1 --seconds 1 --read 64 --in-flight 8 | tee /tmp/disk
  sed -n '/^interrupts /,/^$/p' /tmp/disk | sed '/^$/,$d' >/tmp/ways
  while read -r line; do say "$1: $line"; done </tmp/ways
}
way() { sed -n "s/^$1   *//p" /tmp/ways; }                                           # NAME: its figures, or why it has none
interrupts() { way "$1" | awk '{ print $NF }'; }                                      # NAME: for each read
by_interrupts() { expect "interrupts for each read, $1" "$(interrupts "$1")" '>' 0.01; } # NAME
by_polling() { expect "interrupts for each read, $1" "$(interrupts "$1")" '<=' 0.001; } # NAME

measured /library/film-001.mp4
by_interrupts interrupts
by_polling polled
for name in passthrough "passthrough, polled"; do
  expect "$name of a file" "$(way "$name" | cut -d : -f 1)" is "not available"
done

measured /dev/nvme0n1
by_interrupts interrupts
by_interrupts passthrough
by_polling polled
by_polling "passthrough, polled"
