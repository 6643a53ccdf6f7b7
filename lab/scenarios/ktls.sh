#!/bin/bash
# shows: on the kernel route every byte is right for each version and cipher, the kernel encrypts, and the server reads no byte of a film
# machines: plain newest
# machines long: trixie
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
FILM=/library/film-007.mp4
FILM_BYTES=$(stat -c %s "$FILM")
HOLE_BYTES=$(stat -c %s /library/hole.mp4)
cat "$FILM" /library/film-008.mp4 >/tmp/two

some_of_it() { # CURL-ARGUMENTS...: a film, and the end of a file above 4 GiB
  same_as "$FILM" "$@" "$S/film-007.mp4"
  same_part /library/hole.mp4 $((HOLE_BYTES - 500000)) $((HOLE_BYTES - 1)) "$@" "$S/hole.mp4"
}
all_of_it() { # CURL-ARGUMENTS...: every kind of request
  same_part "$FILM" 1000001 3000000 "$@" "$S/film-007.mp4"
  same_part /library/hole.mp4 $((HOLE_BYTES - 500000)) $((HOLE_BYTES - 1)) "$@" "$S/hole.mp4"
  same_as /library/empty.mp4 "$@" "$S/empty.mp4"
  same_as /tmp/two "$@" -w '%{stderr}%{num_connects} ' "$S/film-007.mp4" "$S/film-008.mp4" 2>/tmp/connects
  expect "connections that two films took" "$(cat /tmp/connects)" is "1 0 "
  get --range 10-19,3000000-3000009 "$@" "$S/film-007.mp4" >/tmp/parts
  grep -aiq "content-range: bytes 3000000-3000009/$FILM_BYTES" /tmp/parts || wrong "several ranges came without their second part"
}

request() { printf 'GET /%s HTTP/1.1\r\nHost: h\r\n%s\r\n' "$1" "${2:-}"; } # NAME [FIELD]

# --- every version and cipher, from the page cache ------------------------------------------------------------------------------
modprobe tls
before=$(tls_stat TlsTxSw)
serve --route kernel --disk cached --listen 127.0.0.1:8443
grep -E '^(route|sandbox) ' /tmp/fullbore.log | while read -r line; do say "$line"; done
all_of_it --tlsv1.3 --tls13-ciphers TLS_AES_128_GCM_SHA256
for suite in TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do some_of_it --tlsv1.3 --tls13-ciphers "$suite"; done
all_of_it --tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-GCM-SHA256
for suite in AES256-GCM-SHA384 CHACHA20-POLY1305; do some_of_it --tls-max 1.2 --ciphers "ECDHE-ECDSA-$suite"; done
expect "suites that were agreed on" "$(curl -sS "http://$ADMIN/metrics" | grep -c '^fullbore_handshakes_total')" = 6

# Pipelining: three requests in one record, answered in order over one connection. openssl gets a goodbye (close_notify), without which it
# would complain about an unexpected end.
{ head -c 3000000 "$FILM" | tail -c 2000000; cat /library/film-008.mp4 /library/empty.mp4; } >/tmp/expected
for version in -tls1_2 -tls1_3; do
  { request film-007.mp4 $'Range: bytes=1000000-2999999\r\n'; request film-008.mp4; request empty.mp4 $'Connection: close\r\n'; } >/tmp/requests
  openssl s_client -quiet "$version" -connect 127.0.0.1:8443 </tmp/requests >/tmp/answers 2>/tmp/openssl.err ||
    wrong "openssl ended with $? after $(stat -c %s /tmp/answers) bytes: $(cat /tmp/openssl.err)"
  perl /lab/guest/answers.pl </tmp/answers >/tmp/bodies 2>/tmp/statuses || wrong "pipelined requests: $(cat /tmp/statuses)"
  expect "answers to pipelined requests" "$(cat /tmp/statuses)" is "206 200 200"
  cmp /tmp/bodies /tmp/expected || wrong "the bytes of pipelined answers are not right ($version)"
  if grep -E 'unexpected eof|SSL routines' /tmp/openssl.err; then wrong "openssl had to complain ($version)"; fi
done

# --- who did it -----------------------------------------------------------------------------------------------------------------
sealed=$(($(tls_stat TlsTxSw) - before))
say "connections that the kernel sealed for: $sealed; by route: $(get "http://$ADMIN/metrics" | sed -n 's/^fullbore_connections_by_route_total//p' | paste -sd ' ')"
expect "connections that the kernel sealed for" "$sealed" = "$(metric 'connections_by_route_total{route="kernel"}')"
expect "connections that the kernel sealed for" "$sealed" = $((2 * 5 + 4 * 2 + 2))
expect "the same, as the server says" "$(metric 'kernel_tls_events_total{event="TlsTxSw"}')" = "$sealed"
settled
films_bytes=$((2 * (2 * FILM_BYTES + 2000000 + 500000) + 4 * (FILM_BYTES + 500000) + 2 * (FILM_BYTES + 2000000)))
say "sendfile $(metric sendfile_bytes_total) bytes, read into memory $(metric brought_bytes_total), read $(metric read_cached_bytes_total) + $(metric read_resident_bytes_total)"
expect "bytes of films sent by the kernel" "$(metric sendfile_bytes_total)" '>=' "$films_bytes"
for way in resident cached once direct; do expect "bytes read into the server ($way)" "$(metric "read_${way}_bytes_total")" = 0; done
expect "windows that were not held" "$(metric windows_not_held_total)" = 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped

# --- strace: the same, seen from outside ----------------------------------------------------------------------------------------
serve --no-sandbox --route kernel --disk cached --workers 1 --listen 127.0.0.1:8443
get -o /dev/null "$S/film-020.mp4"
strace -f -qq -e trace='!futex' -o /tmp/calls -p "$SERVER" &
tracer=$!
eventually 60 grep -q . /tmp/calls
same_as /library/film-020.mp4 "$S/film-020.mp4"
kill -INT "$tracer"; wait "$tracer" || true
sent_bytes=$(awk '/ sendfile(\(| resumed).* = [0-9]+$/ { sum += $NF } END { print sum + 0 }' /tmp/calls)
largest_read=$(awk '/ (read|readv|pread64|preadv2?)(\(| resumed).* = [0-9]+$/ && $NF > most { most = $NF } END { print most + 0 }' /tmp/calls)
say "calls for a film of 4 MiB: $(awk '$2 != "<..." { sub(/\(.*/, "", $2); print $2 }' /tmp/calls | sort | uniq -c | sort -rn | awk '{ print $2, $1 }' | head -8 | paste -sd ',')"
expect "bytes that sendfile says it sent" "$sent_bytes" = "$FILM_BYTES"
expect "the largest read into the server, which also reads /proc" "$largest_read" '<' 16384
stopped
