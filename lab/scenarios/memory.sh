#!/bin/bash
# shows: 200 viewers of a library four times as large as memory: memory use is stable, no process is killed, and titles in demand stay in memory
# machines: small/userspace small/kernel
# machines long: small-trixie/userspace small-trixie/kernel small-newest/userspace small-newest/kernel
# deadline long: 1800
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
ROUTE=${LAB_ROUTE:-userspace}
VIEWERS=200
library_kib=$(du -s /library | cut -f 1)
memory_kib=$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)
expect "library as a multiple of memory" "$(awk -v l="$library_kib" -v m="$memory_kib" 'BEGIN { print l / m }')" '>=' 4
say "memory $((memory_kib >> 10)) MiB, library $((library_kib >> 10)) MiB, $VIEWERS viewers at a time"

# Each request is for half a MiB somewhere in a title; titles by Zipf's law (the n-th as often as 1/n).
requests() { # COUNT
  awk -v count="$1" -v url="$S" 'BEGIN {
    srand(1); titles = 320
    for (n = 1; n <= titles; n++) { sum += 1 / n; up_to[n] = sum }
    for (i = 0; i < count; i++) {
      draw = rand() * sum; for (n = 1; up_to[n] < draw; n++);
      first = int(rand() * 8) * 524288
      if (i) print "next"
      printf "url = \"%s/film-%03d.mp4\"\nrange = \"%d-%d\"\noutput = \"/dev/null\"\ninsecure\nfail\n", url, n - 1, first, first + 524287
    }
  }'
}

look_at_rss() {
  set +x
  while sleep 1; do rss_kib; done
}

# Bytes of films: from memory, from disk into memory, and from disk directly.
ways() {
  local brought
  brought=$(metric brought_bytes_total)
  echo "$(($(metric read_resident_bytes_total) + $(metric sendfile_bytes_total) - brought))" \
    "$(($(metric read_cached_bytes_total) + brought))" \
    "$(($(metric read_once_bytes_total) + $(metric read_direct_bytes_total)))"
}

all_have_left() { [ "$(metric connections)" = 0 ]; }

watched() { # POLICY REQUESTS: checks that hold wherever bytes come from
  local rss_first rss looking waits_before waits waits_ms others_ms processor_ms
  counting_waits
  serve_by "$ROUTE" --disk "$1" --config /tmp/fullbore.toml --listen 127.0.0.1:8443
  requests "$2" >/tmp/requests
  waits_before=$(worker_waits)
  look_at_rss >/tmp/rss 2>/dev/null & looking=$!
  curl -sS --no-progress-meter -Z --parallel-immediate --parallel-max "$VIEWERS" -K /tmp/requests || wrong "a viewer did not get its part"
  kill "$looking"

  # The first third is a warm-up.
  read -r rss_first rss < <(awk '{ rss[NR] = $1 }
    END { for (i = int(NR / 3) + 1; i <= NR; i++) { half = i > NR * 2 / 3; if (rss[i] > max[half]) max[half] = rss[i] } print max[0] + 0, max[1] + 0 }' /tmp/rss)
  read -r waits waits_ms others_ms processor_ms < <(echo "$waits_before $(worker_waits)" | awk '{ print $5 - $1, $6 - $2, $7 - $3, $8 - $4 }')
  settled
  say "$ROUTE, --disk $1, $2 requests: RSS at most $rss_first KiB in the second third of the time, $rss KiB in the last; available $(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) KiB"
  say "$1: read $(ways | awk '{ all = $1 + $2 + $3; printf "%d MiB: %.0f%% from memory, %.0f%% into it, %.0f%% past it", all / 1048576, 100 * $1 / all, 100 * $2 / all, 100 * $3 / all }'); sent by the kernel: $(($(metric sendfile_bytes_total) >> 20)) MiB; windows not brought: $(metric windows_not_brought_total)"
  say "$1: workers slept $waits times for a disk, $waits_ms ms in all, $others_ms ms for something else that cannot be interrupted; they waited $processor_ms ms for a processor"
  expect "times that a worker slept for a disk" "$waits" = 0
  expect "bytes sent" "$(metric response_sent_bytes_total)" '>=' "$(($2 * 524288))"
  expect "growth of RSS in the last third, KiB" "$((rss - rss_first))" '<' 8192
  expect "processes killed for want of memory" "$(awk '$1 == "oom_kill" { print $2 }' /proc/vmstat)" = 0
  eventually 60 all_have_left
  settled
  expect "buffers not given back" "$(($(metric read_buffers) - $(metric read_buffers_free) + $(metric send_buffers) - $(metric send_buffers_free)))" = 0
  expect "bytes still on their way into the page cache" "$(metric bringing_bytes)" = 0
  expect "faults" "$(metric tasks_panicked_total)" = 0
}

what_many_ask_for_stays() { # Not every byte stays, because each worker learns by itself which titles are requested.
  local before share
  before=$(ways)
  same_as /library/film-000.mp4 "$S/film-000.mp4"
  settled
  share=$(echo "$before $(ways)" | awk '{ all = $4 + $5 + $6 - $1 - $2 - $3; printf "%.2f", ($4 - $1) / all }')
  say "of the title most asked for, $share was in memory"
  expect "share of the title most asked for that stayed in memory" "$share" '>=' 0.75
}

# 200 handshakes at once take an emulated processor longer than the handshake timeout.
printf '[timeouts]\nhandshake_seconds = 90\nhead_seconds = 90\nsend_seconds = 120\n' >/tmp/fullbore.toml
if [ "$ROUTE" = kernel ]; then requests_by_heat=450; else requests_by_heat=450; fi
watched auto $((LAB_LONG ? 5000 : requests_by_heat))
what_many_ask_for_stays
stopped
# Without heat everything goes through the page cache, which then evicts pages that the kernel is about to send.
if [ "$ROUTE" = kernel ]; then
  watched cached $((LAB_LONG ? 2000 : 150))
  stopped
fi
