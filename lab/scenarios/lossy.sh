#!/bin/bash
# shows: over 50 ms and 1% loss, with BBR and with CUBIC, on each route, every byte arrives, and lost bytes are retransmitted
# machines: plain
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

BYTES=$((2 << 20))
link_made
tc qdisc add dev near root netem delay 25ms loss 1% limit 10000
elsewhere tc qdisc add dev far root netem delay 25ms limit 10000

lossy() { # CONTROL ROUTE
  local control=$1 route=$2 again sent film viewer viewers=()
  rm -f "/tmp/looks-$control" /tmp/got-*
  printf '[net]\ncongestion_control = "%s"\n' "$control" >/tmp/fullbore.toml
  serve_by "$route" --config /tmp/fullbore.toml --listen 10.9.0.1:8443
  again=$(counted TcpRetransSegs) sent=$(counted TcpOutSegs)
  for film in 001 002 003; do
    elsewhere curl -sSk --fail --range 0-$((BYTES - 1)) -o "/tmp/got-$film" "https://10.9.0.1:8443/film-$film.mp4" &
    viewers+=($!)
  done
  # Each connection as the kernel sees it, sampled again and again while it lasts: the last sample counts.
  while [ "$(jobs -r | grep -c curl)" -gt 0 ]; do
    ss -tinHO state established '( sport = :8443 )' >>"/tmp/looks-$control"
    sleep 0.2
  done
  for viewer in "${viewers[@]}"; do wait "$viewer" || wrong "a viewer under $control did not get its film"; done
  for film in 001 002 003; do cmp -n "$BYTES" "/tmp/got-$film" "/library/film-$film.mp4" || wrong "film-$film is not right under $control, $route"; done

  again=$(($(counted TcpRetransSegs) - again)) sent=$(($(counted TcpOutSegs) - sent))
  awk '{ if (match($0, /retrans:[0-9]+\/[0-9]+/)) { split(substr($0, RSTART, RLENGTH), n, "/"); last[$4] = n[2] } else if (!($4 in last)) last[$4] = 0 }
    END { for (peer in last) print peer, last[peer] }' "/tmp/looks-$control" >/tmp/each
  say "$control, $route: $again of $sent segments sent again; by connection: $(awk '{ print $2 }' /tmp/each | sort -n | paste -sd ' ')"
  grep -q "$control" "/tmp/looks-$control" || wrong "no connection used $control ($route)"
  expect "segments sent again under $control, $route" "$again" '>' 0
  expect "share of segments sent again under $control, $route" "$(awk -v a="$again" -v b="$sent" 'BEGIN { print a / b }')" '<' 0.1
  expect "connections with something sent again under $control, $route" "$(awk '$2 > 0' /tmp/each | wc -l)" '>=' 1
  expect "connections seen under $control, $route" "$(wc -l </tmp/each)" = 3
  if [ "$route" = kernel ]; then expect "bytes that the kernel sent" "$(metric sendfile_bytes_total)" '>=' $((3 * BYTES)); fi
  expect "faults" "$(metric tasks_panicked_total)" = 0
  stopped
}

# Films of only one viewer are read past the page cache, and the kernel sends only from there.
cat /library/film-00{1,2,3}.mp4 >/dev/null
for route in userspace kernel; do
  for control in bbr cubic; do lossy "$control" "$route"; done
done
