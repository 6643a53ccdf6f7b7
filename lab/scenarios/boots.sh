#!/bin/bash
# shows: the kernel has the lab's modules, and takes keys for TLS
# machines: plain newest
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

say "kernel $(uname -r), up after $(cut -d ' ' -f 1 /proc/uptime) s"

for module in tls tcp_bbr sch_fq sch_netem bonding veth dm_delay virtio_net; do
  [ -d "/sys/module/$module" ] || modprobe "$module" || wrong "no module $module"
  [ -d "/sys/module/$module" ] || wrong "module $module is not in the kernel, although modprobe says so"
done
[ -b /dev/nvme0n1 ] || wrong "no NVMe disk"
[ -e /proc/net/tls_stat ] || wrong "no /proc/net/tls_stat"
expect "films" "$(find /library -name 'film-*.mp4' | wc -l)" '>' 10

# Keys for sending, for each version and cipher: the kernel either takes them or it lacks a cipher.
perl /lab/guest/ktls.pl | while read -r line; do say "$line"; done
expect "connections that the kernel encrypts for" "$(awk '$1 == "TlsTxSw" { print $2 }' /proc/net/tls_stat)" = 6
