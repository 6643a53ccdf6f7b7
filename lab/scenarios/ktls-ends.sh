#!/bin/bash
# shows: the kernel route's connections end as they should: key updates, alerts, viewers who vanish, files that change, a lost module, draining
# machines: plain newest
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
ended() { metric "connections_ended_total{reason=\"$1\"}"; }
has_ended() { [ "$(ended "$1")" -ge "$2" ]; }
mount -t tmpfs tmpfs /tmp/ours 2>/dev/null || { mkdir /tmp/ours; mount -t tmpfs tmpfs /tmp/ours; }
serve_ours() { # ARGUMENTS...: a library that can be written to
  (ulimit -n 20000; exec fullbore serve /tmp/ours --state /tmp/state --admin "$ADMIN" --listen 127.0.0.1:8443 --route kernel "$@") >/tmp/fullbore.log 2>&1 &
  SERVER=$!
  eventually 60 serving
}

modprobe tls
changes_keys=0
if grep -q TlsTxRekeyOk /proc/net/tls_stat; then changes_keys=1; fi
serve --route kernel --disk cached --listen 127.0.0.1:8443

# A viewer changes its keys (k), then asks for ours to change too (K): answered where the kernel can do it, else an orderly end.
ask() { printf 'HEAD /film-001.mp4 HTTP/1.1\r\nHost: h\r\n\r\n'; }
{ ask; sleep 1; echo k; sleep 1; ask; sleep 1; } | openssl s_client -connect 127.0.0.1:8443 -tls1_3 >/tmp/said 2>&1 &
client=$!
sleep 5; kill "$client" 2>/dev/null || true; wait "$client" || true
expect "answers around a key update of the viewer's own" "$(grep -c 'HTTP/1.1 200' /tmp/said)" = 2
{ ask; sleep 1; echo K; sleep 1; ask; sleep 1; } | openssl s_client -connect 127.0.0.1:8443 -tls1_3 >/tmp/said 2>&1 &
client=$!
sleep 5; kill "$client" 2>/dev/null || true; wait "$client" || true
answers=$(grep -c 'HTTP/1.1 200' /tmp/said)
say "key updates: received $(metric key_updates_received_total), sent $(metric key_updates_sent_total); answers $answers; connections ended for it: $(ended keys_fixed)"
expect "key updates received" "$(metric key_updates_received_total)" = 2
if [ "$changes_keys" = 1 ]; then
  expect "answers around a key update of both" "$answers" = 2
  expect "keys that the kernel changed" "$(metric 'kernel_tls{counter="TlsTxRekeyOk"}')" = 1
else
  expect "answers before a key update that cannot be answered" "$answers" = 1
  expect "orderly ends for it" "$(ended keys_fixed)" = 1
  if grep -qE 'unexpected eof|SSL routines' /tmp/said; then wrong "openssl was not told goodbye: $(tail -n 3 /tmp/said)"; fi
fi

# Viewers who vanish while their film is sent: by a reset, and without a word.
curl -sSk --limit-rate 200K -o /dev/null "$S/film-002.mp4" & viewer=$!
sleep 1; kill -KILL "$viewer"; wait "$viewer" || true
eventually 30 has_ended peer_reset 1
link_made
curl_far() { elsewhere curl -sSk --max-time 120 "$@"; }
stopped
printf '[timeouts]\nsend_seconds = 3\n' >/tmp/fullbore.toml
serve --config /tmp/fullbore.toml --route kernel --disk cached --listen 10.9.0.1:8443
curl_far -o /dev/null --limit-rate 200K https://10.9.0.1:8443/film-002.mp4 & viewer=$!
sleep 1
elsewhere ip link set far down
eventually 30 has_ended send_timeout 1
kill "$viewer" 2>/dev/null || true; wait "$viewer" || true
elsewhere ip link set far up # what was sent to it meets a reset, and the kernel forgets it
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped

# A file that somebody writes to: the writer waits until its viewers are cut off, and no byte of the new one reaches them.
cp /library/film-003.mp4 /library/film-004.mp4 /tmp/ours/
serve_ours --disk cached
curl -sSk --limit-rate 400K -o /tmp/cut "$S/film-003.mp4" 2>/dev/null & viewer=$!
curl -sSk --limit-rate 1M -o /tmp/uncut "$S/film-004.mp4" & other=$!
sleep 2
cat /library/film-005.mp4 >/tmp/ours/film-003.mp4
if wait "$viewer"; then wrong "a viewer of a file that was overwritten got a whole film"; fi
cmp -n "$(stat -c %s /tmp/cut)" /tmp/cut /library/film-003.mp4 || wrong "a viewer got a byte of another version"
expect "bytes that came before the end" "$(stat -c %s /tmp/cut)" '<' 4194304
say "overwritten in place: $(stat -c %s /tmp/cut) right bytes, then $(get "http://$ADMIN/metrics" | sed -n 's/^fullbore_connections_ended_total{reason="\(file_[a-z]*\)"} / \1 /p' | paste -sd ' ')"
wait "$other" || wrong "the viewer of another film was cut off as well"
cmp /tmp/uncut /library/film-004.mp4
same_as /library/film-005.mp4 "$S/film-003.mp4"

# The module goes while the server runs: user space seals, and it is counted.
sleep 1
gone() { echo /bin/false >/proc/sys/kernel/modprobe; modprobe -r tls; }
eventually 60 gone
same_as /library/film-004.mp4 "$S/film-004.mp4"
expect "connections that the kernel did not take" "$(metric 'kernel_tls_refused_total{reason="not_there"}')" = 1
expect "connections sealed for in user space" "$(metric 'connections_by_route_total{route="userspace"}')" = 1
echo /sbin/modprobe >/proc/sys/kernel/modprobe; modprobe tls

# Draining: who is in the middle of a film gets the rest.
get --limit-rate 1M -o /tmp/slow "$S/film-004.mp4" & viewer=$!
eventually 30 [ -s /tmp/slow ]
kill -TERM "$SERVER"
wait "$viewer" || wrong "a viewer lost its connection although the server was draining"
cmp /tmp/slow /library/film-004.mp4
wait "$SERVER" || wrong "the server did not end with 0 after draining"
expect "sockets that the kernel still seals for" "$(awk '$1 == "TlsCurrTxSw" { print $2 }' /proc/net/tls_stat)" = 0
