#!/bin/bash
# shows: net.pacing_bits_per_second holds each viewer's rate on each route, with fq and without
# machines: plain
# alone: it measures rates, which fall where another machine takes the processors
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

RATE=8000000 # bit/s: a film takes some 4 s, which slow processors keep up with
link_made

# Bits per second between two samples of the bytes received, on the guest's clock, without the burst at the start.
rate_of() { # FILE SECONDS
  local before after begin end
  eventually 30 [ -s "$1" ]
  sleep 1
  before=$(stat -c %s "$1") begin=$(cut -d ' ' -f 1 /proc/uptime)
  sleep "$2"
  after=$(stat -c %s "$1") end=$(cut -d ' ' -f 1 /proc/uptime)
  awk -v bytes="$((after - before))" -v seconds="$begin $end" 'BEGIN { split(seconds, s, " "); print bytes * 8 / (s[2] - s[1]) }'
}

printf '[net]\npacing_bits_per_second = %s\n' "$RATE" >/tmp/fullbore.toml

paced() { # QUEUE PERCENT_MIN ROUTE https|http
  local what="$1, $3, $4" tls=on rate viewer viewers=()
  if [ "$4" = http ]; then tls=off; fi
  tc qdisc replace dev near root "$1"
  serve_by "$3" --config /tmp/fullbore.toml --tls "$tls" --listen 10.9.0.1:8443
  for viewer in 1 2; do
    rm -f "/tmp/got-$viewer"
    elsewhere curl -sSkN --fail -o "/tmp/got-$viewer" "$4://10.9.0.1:8443/film-00$viewer.mp4" &
    viewers+=($!)
  done
  rate=$(rate_of /tmp/got-1 2)
  say "$what: $(awk -v rate="$rate" 'BEGIN { printf "%.2f", rate / 1e6 }') Mbit/s of body for $((RATE / 1000000)) Mbit/s"
  expect "rate ($what)" "$rate" '>' "$((RATE * $2 / 100))"
  expect "rate ($what)" "$rate" '<' "$((RATE * 110 / 100))"
  for viewer in "${viewers[@]}"; do wait "$viewer" || wrong "a paced viewer did not get its film ($what)"; done
  for viewer in 1 2; do cmp "/tmp/got-$viewer" "/library/film-00$viewer.mp4" || wrong "a paced film is not right ($what)"; done
  if [ "$3" = kernel ]; then expect "bytes that the kernel sent ($what)" "$(metric sendfile_bytes_total)" '>=' $((2 * 4194304)); fi
  stopped
}

# Without fq, TCP paces by its own timers, which fire late on an emulated processor.
paced fq 90 userspace https
paced fq 90 kernel https
paced fq 90 kernel http
paced pfifo_fast 75 userspace https
paced pfifo_fast 75 kernel https
