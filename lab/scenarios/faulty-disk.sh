#!/bin/bash
# shows: a disk fails, flickers, is slow or hangs under its viewers: viewers of another disk are not affected, no byte is wrong, and the disk's films are served again when it is back
# machines: plain/userspace
# deadline: 240
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=http://127.0.0.1:8080
ROUTE=${LAB_ROUTE:-userspace}
HANG_SECONDS=$((LAB_LONG ? 30 : 3)) # at least, because the checks meanwhile take longer
LIBRARY=/tmp/films
HUNG=(010 011 012 013 014 015 016 017 018 019 020 021 022 023 024 025 026 027 028 029)

# So little is in flight to a viewer that the server has to read from disk while it watches.
for side in rmem wmem; do echo '4096 65536 131072' >"/proc/sys/net/ipv4/tcp_$side"; done

# One library on two disks. Both are the same read-only disk, each behind a device mapper of its own, and one of these treats requests as a
# bad disk does.
modprobe -a dm_mod dm_delay
SECTORS=$(cat /sys/block/nvme0n1/size)
umount /library
for disk in good bad; do
  dmsetup create "$disk" --noudevsync --noudevrules --readonly --table "0 $SECTORS linear /dev/nvme0n1 0"
  mkdir -p "$LIBRARY/$disk"
  mount -o ro,noatime "/dev/dm-$(dmsetup info -c --noheadings -o minor "$disk")" "$LIBRARY/$disk"
done
mount --bind "$LIBRARY/good" /library # what same_as compares with

disk_hangs() { dmsetup suspend --noudevsync --nolockfs --noflush bad; } # requests wait in it, without an error
disk_is_back() { dmsetup resume --noudevsync --noudevrules bad; }
disk_becomes() { # TARGET ARGUMENTS...
  disk_hangs
  dmsetup reload --noudevsync --readonly --table "0 $SECTORS $*" bad
  disk_is_back
}
forget_all() { echo 3 >/proc/sys/vm/drop_caches; }
on_good() { # FILM...: every byte, whatever the other disk does
  local film
  for film in "$@"; do
    curl -sS --fail --max-time 60 "$S/good/film-$film.mp4" | cmp - "/library/film-$film.mp4" || wrong "film-$film of the good disk was not served"
  done
}

counting_waits
serve_by "$ROUTE" --tls off --workers 1 --listen 127.0.0.1:8080

# --- it fails --------------------------------------------------------------------------------------------------------------------

begin film-003 "$S/bad/film-003.mp4"
failing=$VIEWER
begin film-004 "$S/good/film-004.mp4"
going_on=$VIEWER
disk_becomes error
forget_all
if go_on film-003 "$failing"; then wrong "curl had nothing to complain about"; fi
eventually 30 has_ended file_io 1
cmp -n "$(stat -c %s /tmp/got-film-003)" /tmp/got-film-003 /library/film-003.mp4
on_good 001 002
go_on film-004 "$going_on" || wrong "a viewer of the good disk was cut off"
cmp /tmp/got-film-004 /library/film-004.mp4
if curl -s --fail -o /dev/null "$S/bad/film-005.mp4"; then wrong "a film was served from a disk that fails"; fi # by 500, or cut off
disk_becomes linear /dev/nvme0n1 0
forget_all
settled # the server opens the disk again within a second
for film in 003 005; do same_as "/library/film-$film.mp4" "$S/bad/film-$film.mp4"; done
say "it failed, and its films are served again: $(ended file_io) connections ended"

# --- it flickers: there and away again, second by second ------------------------------------------------------------------------------

has_all() { [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" = 4194304 ]; }
as_players_do() { # FILM: from where it was, again and again
  for _ in {1..60}; do
    curl -sS --fail -C - --limit-rate 2M -o "/tmp/flickering-$1" "$S/bad/film-$1.mp4" 2>/dev/null || sleep 0.2
    if has_all "/tmp/flickering-$1"; then break; fi
  done
}
flicker() {
  while [ -e /tmp/flickers ]; do
    disk_becomes error
    sleep 0.5
    disk_becomes linear /dev/nvme0n1 0
    sleep 1
  done
}
: >/tmp/flickers
forget_all
flicker &
flickers=$!
flickering=()
for film in 006 007 008; do
  as_players_do "$film" &
  flickering+=($!)
done
for viewer in "${flickering[@]}"; do wait "$viewer"; done
rm /tmp/flickers
wait "$flickers"
for film in 006 007 008; do cmp "/tmp/flickering-$film" "/library/film-$film.mp4"; done
say "it flickered, and its viewers got every byte: $(ended file_io) connections ended"

# --- it is slow -------------------------------------------------------------------------------------------------------------------

disk_becomes delay /dev/nvme0n1 0 200
forget_all
same_as /library/film-009.mp4 "$S/bad/film-009.mp4"
disk_becomes linear /dev/nvme0n1 0

# --- it hangs ----------------------------------------------------------------------------------------------------------------------

# Meanwhile a server with a viewer on each disk gets the signal to stop.
printf 'drain_seconds = 4\n' >/tmp/drains.toml
(exec fullbore serve "$LIBRARY" --config /tmp/drains.toml --state /tmp/state --admin 127.0.0.1:0 --route "$ROUTE" --tls off --workers 1 --listen 127.0.0.1:8081) >/tmp/drains.log 2>&1 &
DRAINS=$!
eventually 60 grep -q '^ready ' /tmp/drains.log

forget_all # so that opening hangs, too
for _ in 1 2 3; do get -o /dev/null "$S/good/film-00[1-2].mp4"; done # asked for again: worth memory
begin film-035 "http://127.0.0.1:8081/bad/film-035.mp4"
begin film-036 "http://127.0.0.1:8081/good/film-036.mp4"
drained=$VIEWER
begin film-037 "$S/good/film-037.mp4"
going_on=$VIEWER
settled
waits_before=$(worker_waits)
accepted_before=$(metric connections_accepted_total)
began=$SECONDS
disk_hangs
hung=()
for film in "${HUNG[@]}"; do
  curl -sS -o "/tmp/hung-$film" "$S/bad/film-$film.mp4" 2>"/tmp/hung-$film.err" &
  hung+=($!)
done
: >/tmp/go-film-035
all_have_come() { [ "$(metric connections_accepted_total)" -ge $((accepted_before + ${#HUNG[@]})) ]; }
eventually 60 all_have_come
settled
say "while it hangs, $(metric read_buffers_free) of $(metric read_buffers) read buffers are free, $(metric bringing_bytes) bytes on their way into the page cache; the ring has $(cat /proc/"$SERVER"/task/*/comm | grep -c iou-wrk) threads"
on_good 001 002 # from memory
say "after $((SECONDS - began)) s films in memory were served"
on_good 040 041 # from the disk, never asked for before
go_on film-037 "$going_on" || wrong "a viewer of the good disk was cut off"
cmp /tmp/got-film-037 /library/film-037.mp4
say "after $((SECONDS - began)) s films of the good disk that were not in memory were served"

kill -TERM "$DRAINS"
go_on film-036 "$drained" || wrong "a viewer of the good disk was cut off by the end of the server"
cmp /tmp/got-film-036 /library/film-036.mp4
eventually 30 grep -q 'viewers were cut off' /tmp/drains.log

read -r waits waits_ms others_ms processor_ms < <(echo "$waits_before $(worker_waits)" | awk '{ print $5 - $1, $6 - $2, $7 - $3, $8 - $4 }')
say "the worker slept $waits times for a disk, $waits_ms ms in all, $others_ms ms for something else that cannot be interrupted; it waited $processor_ms ms for a processor"
expect "times that the worker slept for a disk" "$waits" = 0
expect "films that came from the disk that hangs" "$(find /tmp -maxdepth 1 -name 'hung-*' -size +4095k | wc -l)" = 0
while [ $((SECONDS - began)) -lt "$HANG_SECONDS" ]; do sleep 1; done
disk_is_back
for viewer in "${hung[@]}"; do wait "$viewer" || wrong "a viewer of the disk that hung: $(cat /tmp/hung-*.err)"; done
for film in "${HUNG[@]}"; do cmp "/tmp/hung-$film" "/library/film-$film.mp4"; done
say "it hung for $((SECONDS - began)) s, then all of its ${#HUNG[@]} viewers got their films"
status=0
wait "$DRAINS" || status=$?
expect "exit code of the server that cut viewers off" "$status" = 1

expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
