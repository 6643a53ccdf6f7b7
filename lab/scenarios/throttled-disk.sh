#!/bin/bash
# shows: viewers of resident titles keep their rate while others wait for a slow disk, and no worker waits for it
# machines: plain newest
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
DISK_BYTES_PER_SECOND=$((4 << 20)) # an emulated processor serves some tens of MB/s, so that the disk is what is slow
RESIDENT=(001 002 003 004 005)
COLD_FIRST=10 COLD_LAST=54 # 45 viewers

serve --workers 1 --listen 127.0.0.1:8443 # nobody can be lucky and be with another worker
for _ in 1 2; do # asked for again: worth memory
  get -o /dev/null "$S/film-00[1-5].mp4"
done

# The seconds that all of them take together, at a rate that each holds without effort.
watch_resident() {
  local film began viewers=()
  began=$(cut -d ' ' -f 1 /proc/uptime)
  for film in "${RESIDENT[@]}"; do
    get --limit-rate 400K -o "/tmp/resident-$film" "$S/film-$film.mp4" &
    viewers+=($!)
  done
  for film in "${viewers[@]}"; do wait "$film" || wrong "a viewer of a resident title did not get it"; done
  for film in "${RESIDENT[@]}"; do cmp "/tmp/resident-$film" "/library/film-$film.mp4"; done
  awk -v began="$began" '{ print $1 - began }' /proc/uptime
}

# Looks at each thread again and again. One that waits for a disk is in state D. (The kernel's delay accounting would not do: it
# counts waiting for the ring as waiting for a disk, whatever the ring waits for.)
look_at_threads() {
  local task line
  set +x
  while sleep 0.2; do
    for task in /proc/"$SERVER"/task/*; do
      if read -r line <"$task/stat"; then echo "$line"; fi
    done
  done
}

disk_bytes() { echo $(($(metric read_direct_bytes_total) + $(metric read_cached_bytes_total))); }

alone=$(watch_resident)
settled
resident_before=$(metric read_resident_bytes_total)

echo +io >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/slow
echo "$(cat /sys/block/nvme0n1/dev) rbps=$DISK_BYTES_PER_SECOND" >/sys/fs/cgroup/slow/io.max
echo "$SERVER" >/sys/fs/cgroup/slow/cgroup.procs

disk_before=$(disk_bytes)
began=$(cut -d ' ' -f 1 /proc/uptime)
curl -sSk --no-progress-meter -Z --parallel-immediate --parallel-max 50 -o '/tmp/cold-#1' "$S/film-0[$COLD_FIRST-$COLD_LAST].mp4" 2>/tmp/cold.err &
cold=$!
look_at_threads >/tmp/looks 2>/dev/null &
looking=$!
all_are_there() { [ "$(metric connections)" -ge 45 ]; }
eventually 60 all_are_there
beside=$(watch_resident)
kill "$looking"
kill -0 "$cold" 2>/dev/null || wrong "the cold viewers were done before the resident ones, so nothing was shown"
seconds=$(awk -v began="$began" '{ print $1 - began }' /proc/uptime)
read -r looks waiting < <(awk '/\(worker-/ { looks++; if ($3 == "D") waiting++ } END { print looks + 0, waiting + 0 }' /tmp/looks)
read_bytes=$(($(disk_bytes) - disk_before))
got=$(cat /tmp/cold-* | wc -c)
began_count=$(find /tmp -name 'cold-*' -size +0 | wc -l)
settled
resident_bytes=$(($(metric read_resident_bytes_total) - resident_before))

say "resident viewers: $alone s alone, $beside s beside 45 cold ones"
say "cold viewers: $got bytes in $seconds s from a disk of $DISK_BYTES_PER_SECOND bytes/s; $began_count of 45 had begun"
say "workers were seen waiting for the disk in $waiting of $looks looks; sessions waited for a buffer $(metric buffer_waits_total) times"
expect "rate of resident viewers beside cold ones, as a share of alone" "$(awk -v a="$alone" -v b="$beside" 'BEGIN { print a / b }')" '>=' 0.9
# Not to the last byte: before Linux 6.5 the kernel does not tell what is in its page cache, and heat may miss a block.
expect "resident titles came from memory, bytes" "$resident_bytes" '>=' $((${#RESIDENT[@]} * (4 << 20) * 9 / 10))
expect "cold viewers that had begun" "$began_count" '>' 0
expect "bytes per second read from a slow disk" "$(awk -v b="$read_bytes" -v s="$seconds" 'BEGIN { print b / s }')" '<' $((DISK_BYTES_PER_SECOND * 3 / 2))
expect "looks at workers" "$looks" '>' 20
expect "share of looks that saw a worker wait for the disk" "$(awk -v d="$waiting" -v l="$looks" 'BEGIN { print d / l }')" '<' 0.02
kill "$cold"
wait "$cold" || true
expect "faults" "$(metric tasks_panicked_total)" = 0
echo "$(cat /sys/block/nvme0n1/dev) rbps=max" >/sys/fs/cgroup/slow/io.max
stopped
