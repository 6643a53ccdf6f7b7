#!/bin/bash
# shows: fullbore doctor on a real kernel with four nodes, also as a user who may read little: it ends with the right exit code, finds each planted fault, and no longer reports it after its repair
# machines: four-nodes
# deadline: 120
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

CARD=$(basename "$(find /sys/class/net -name 'e*' | sort | head -n 1)")
DISK=nvme0n1
for card in /sys/class/net/e*; do ip link set "$(basename "$card")" up; done

examine() { # sets CODE; the findings' names go to /tmp/names
  CODE=0
  fullbore doctor /library --json >/tmp/diagnosis.json 2>/tmp/doctor.err || CODE=$?
  if [ "$CODE" -gt 1 ]; then wrong "the doctor ended with $CODE: $(cat /tmp/doctor.err)"; fi
  sed -n '/"findings"/,$p' /tmp/diagnosis.json | grep -o '"name": *"[a-z0-9-]*"' | cut -d '"' -f 4 | sort -u >/tmp/names
}
finds() { grep -qx "$1" /tmp/names; }
must_find() { examine; finds "$1" || wrong "the doctor does not find $1: $(paste -sd ' ' /tmp/names)"; }
must_not_find() { examine; if finds "$1"; then wrong "the doctor still finds $1"; fi; }

examine
grep -q '"kind": *"disk"' /tmp/diagnosis.json || wrong "the doctor sees no disk"
for node in 0 1 2 3; do
  expect "disks and cards on node $node" "$(grep -c "\"node\": *$node" /tmp/diagnosis.json)" = 2
done
expect "disks that tell how worn they are" "$(grep -c '"used_percent": *[0-9]' /tmp/diagnosis.json)" = 4
say "$(uname -r), four nodes, exit code $CODE: $(paste -sd ' ' /tmp/names)"
grep -q '"version": *1' /tmp/diagnosis.json || wrong "the diagnosis has no version"
grep -q 'nodes: 4' /tmp/diagnosis.json || wrong "the doctor does not see four nodes: $(grep machine /tmp/diagnosis.json)"

must_not_find gro
ethtool -K "$CARD" gro off
must_find gro
ethtool -K "$CARD" gro on
must_not_find gro

before=$(cat /proc/sys/net/core/somaxconn)
echo 128 >/proc/sys/net/core/somaxconn
must_find somaxconn
echo "$before" >/proc/sys/net/core/somaxconn
must_not_find somaxconn

echo mq-deadline >"/sys/block/$DISK/queue/scheduler" || wrong "this kernel has no mq-deadline, so no fault can be made"
must_find scheduler
echo none >"/sys/block/$DISK/queue/scheduler"
must_not_find scheduler

# A user who may read little: it says what it could not read.
CODE=0
chmod o+rx / # the guest's files came from a folder for root alone
su -s /bin/sh nobody -c 'fullbore doctor --json' >/tmp/diagnosis.json 2>/tmp/doctor.err || CODE=$?
expect "exit code as the user nobody" "$CODE" '<=' 1
tr -d '\n' </tmp/diagnosis.json >/tmp/diagnosis
grep -q '"version": *1' /tmp/diagnosis || wrong "the user nobody gets no diagnosis: $(cat /tmp/doctor.err)"
grep -q 'health of disks.*run it as root' /tmp/diagnosis || wrong "the user nobody should not see the disks' health: $(cat /tmp/diagnosis)"
