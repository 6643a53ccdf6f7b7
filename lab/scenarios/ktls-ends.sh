#!/bin/bash
# shows: on the kernel route, viewers send an alert, break off, vanish or stay to the end while their film is sent: each end is orderly and counted, and other viewers are not affected
# machines: plain newest
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
ask() { printf '%s /%s HTTP/1.1\r\nHost: h\r\n%s\r\n' "$1" "$2" "${3:-}"; } # METHOD NAME [FIELD]
crossing() { # up|down OFFSET: a viewer of 127.0.0.1:8444 has one byte changed on its way
  perl /lab/guest/crossing.pl 8444 127.0.0.1 8443 "$1" "$2" &
  CROSSING=$!
  eventually 30 listens
}
listens() { ss -Hltn 'sport = :8444' | grep -q .; }

modprobe tls
serve --route kernel --disk cached --listen 127.0.0.1:8443

# A viewer who watches slowly throughout, and requests the rest at the very end.
begin witness "$S/film-010.mp4"
witness=$VIEWER

# Records that were changed in transit: the viewer notices, and alerts in the middle of its film. The server sees the alert after it has sent
# the film; here it sends all of it, since the program in between accepts it.
ends=0
for version in -tls1_2 -tls1_3; do
  crossing down 1000000
  ask GET film-001.mp4 | openssl s_client -quiet -ign_eof "$version" -connect 127.0.0.1:8444 >/tmp/got 2>/tmp/said || true
  grep -q 'bad record mac' /tmp/said || wrong "openssl took a record that was changed: $(cat /tmp/said)"
  expect "bytes of a film with a changed byte" "$(stat -c %s /tmp/got)" '<' 4194304
  ends=$((ends + 1))
  eventually 30 has_ended peer_alert "$ends"
  wait "$CROSSING" || true
done

# The other direction: a viewer's second request is changed while the film of the first one is sent. That film arrives whole, then an alert
# (20: bad_record_mac) sealed by the kernel.
changed_request() { # a second request that contains the byte, when the first one's film has begun to arrive
  ask GET film-001.mp4
  eventually 30 has_bytes /tmp/got 1000
  ask HEAD film-001.mp4 "X: $(printf '%04000d' 0)"$'\r\n'
}
rm /tmp/got
crossing up 3000
openssl s_client -quiet -ign_eof -tls1_3 -connect 127.0.0.1:8444 < <(changed_request) >/tmp/got 2>/tmp/said || true
grep -q 'alert number 20' /tmp/said || wrong "openssl got no alert: $(cat /tmp/said)"
tail -c 4194304 /tmp/got | cmp - /library/film-001.mp4 || wrong "the film before the alert is not whole"
eventually 30 has_ended bad_record_mac 1
wait "$CROSSING" || true
say "alerts: $(ended peer_alert) by viewers, $(ended bad_record_mac) to one"

# Responses before a close that end while TCP is full: all of them arrive, and so does the goodbye.
viewers=()
for number in 1 2 3 4 5 6 7 8; do begin "close-$number" -H 'Connection: close' "$S/film-01$number.mp4"; viewers+=("$VIEWER"); done
for number in 1 2 3 4 5 6 7 8; do go_on "close-$number" "${viewers[number - 1]}" || wrong "an answer before a close: $(cat "/tmp/said-close-$number")"; done
for number in 1 2 3 4 5 6 7 8; do cmp "/tmp/got-close-$number" "/library/film-01$number.mp4"; done

# A viewer who breaks off: its kernel sends a reset.
curl -sSk --limit-rate 200K -o /tmp/broken "$S/film-002.mp4" & viewer=$!
eventually 30 has_bytes /tmp/broken 1
resets=$(ended peer_reset)
kill -KILL "$viewer"; wait "$viewer" || true
eventually 30 has_ended peer_reset $((resets + 1))
say "in the middle of a film: $(curl -sS "http://$ADMIN/metrics" | sed -n 's/^fullbore_connections_ended_total{reason="\(.*\)"} / \1 /p' | paste -sd ',')"

# Draining: viewers in the middle of a film get the rest, idle viewers get a goodbye, and no new viewers are accepted.
openssl s_client -ign_eof -connect 127.0.0.1:8443 < <(ask HEAD film-004.mp4; sleep 60) >/tmp/idle 2>&1 & idle=$!
eventually 30 grep -q 'HTTP/1.1 200' /tmp/idle
kill -0 "$witness" || wrong "the viewer who watched all the while was cut off"
sent_bytes=$(metric sendfile_bytes_total)
expect "faults" "$(metric tasks_panicked_total)" = 0
expect "bytes read into the server" "$(($(metric read_resident_bytes_total) + $(metric read_cached_bytes_total)))" = 0
kill -TERM "$SERVER"
turns_away() { ! curl -sk --max-time 5 -o /dev/null "$S/empty.mp4"; }
eventually 30 turns_away
wait "$idle" || true
if grep -E 'unexpected eof|errno' /tmp/idle; then wrong "a viewer between two films got no close_notify"; fi
go_on witness "$witness" || wrong "a viewer lost its connection although the server was draining: $(cat /tmp/said-witness)"
cmp /tmp/got-witness /library/film-010.mp4 || wrong "the bytes of a drained viewer are not right"
wait "$SERVER" || wrong "the server did not end with 0 after draining"
say "drained: a viewer in the middle of a film got all of it; $sent_bytes bytes by sendfile until then"

# A viewer who vanishes silently: the server ends the connection after the send timeout.
link_made
printf '[timeouts]\nsend_seconds = 5\n' >/tmp/fullbore.toml
serve --config /tmp/fullbore.toml --route kernel --disk cached --listen 10.9.0.1:8443
elsewhere curl -sSk --max-time 120 -o /tmp/silent --limit-rate 200K "https://10.9.0.1:8443/film-003.mp4" & viewer=$!
eventually 30 has_bytes /tmp/silent 1
elsewhere ip link set far down
same_as /library/film-004.mp4 "https://10.9.0.1:8443/film-004.mp4" # other viewers are served meanwhile
eventually 60 has_ended send_timeout 1
kill "$viewer" 2>/dev/null || true; wait "$viewer" || true
elsewhere ip link set far up # data sent to it gets a reset, and the kernel forgets the connection
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
gone() { [ "$(tls_stat TlsCurrTxSw)" = 0 ]; }
eventually 30 gone # sockets for which the kernel still seals
