#!/bin/bash
# shows: on the kernel route every byte is right for each version and cipher, the kernel seals, and no byte of a film is read by the server
# machines: plain newest
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
FILM=/library/film-007.mp4
HOLE_BYTES=$(stat -c %s /library/hole.mp4)

stat_of() { awk -v name="$1" '$1 == name { print $2; found = 1 } END { if (!found) print 0 }' /proc/net/tls_stat; }

asked_for() { # CURL-ARGUMENTS...
  same_part "$FILM" 1000001 3000000 "$@" "$S/film-007.mp4"
  same_part /library/hole.mp4 $((HOLE_BYTES - 500000)) $((HOLE_BYTES - 1)) "$@" "$S/hole.mp4"
  same_as /library/empty.mp4 "$@" "$S/empty.mp4"
  cat "$FILM" /library/film-008.mp4 >/tmp/two
  same_as /tmp/two "$@" "$S/film-007.mp4" "$S/film-008.mp4"
  get --range 10-19,3000000-3000009 "$@" "$S/film-007.mp4" >/tmp/parts
  grep -aiq "content-range: bytes 3000000-3000009/4194304" /tmp/parts || wrong "several ranges came without their second part"
}

# --- without the module: refused in words, and nothing is served ----------------------------------------------------------------
modprobe -r tls 2>/dev/null || true
modprobe_path=$(cat /proc/sys/kernel/modprobe)
echo /bin/false >/proc/sys/kernel/modprobe
status=0
fullbore serve /library --state /tmp/state --admin 127.0.0.1:0 --listen 127.0.0.1:0 --route kernel >/tmp/refused 2>&1 || status=$?
expect "exit code without the module" "$status" = 1
grep -q 'modprobe tls' /tmp/refused || wrong "it was not said what to do: $(cat /tmp/refused)"
echo "$modprobe_path" >/proc/sys/kernel/modprobe

# --- every version and cipher, from the page cache and from the disk ------------------------------------------------------------
modprobe tls
before=$(stat_of TlsTxSw)
serve --route kernel --disk cached --listen 127.0.0.1:8443
grep -E '^(route|sandbox) ' /tmp/fullbore.log | while read -r line; do say "$line"; done
for suite in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
  asked_for --tlsv1.3 --tls13-ciphers "$suite"
done
for suite in AES128-GCM-SHA256 AES256-GCM-SHA384 CHACHA20-POLY1305; do
  asked_for --tls-max 1.2 --ciphers "ECDHE-ECDSA-$suite"
done
sealed=$(($(stat_of TlsTxSw) - before))
say "connections that the kernel sealed for: $sealed; by route: $(get "http://$ADMIN/metrics" | sed -n 's/^fullbore_connections_by_route_total//p' | paste -sd ' ')"
expect "connections that the kernel sealed for" "$sealed" = "$(metric 'connections_by_route_total{route="kernel"}')"
expect "connections that the kernel sealed for" "$sealed" '>=' 30
expect "the same, as the server says" "$(metric 'kernel_tls{counter="TlsTxSw"}')" = "$sealed"
sleep 1.1 # numbers of the disk are published once a second
say "sendfile $(metric sendfile_bytes_total) bytes, brought $(metric brought_bytes_total), read $(metric read_cached_bytes_total) + $(metric read_resident_bytes_total)"
expect "bytes of films sent by the kernel" "$(metric sendfile_bytes_total)" '>=' $((6 * (2 * 4194304 + 2000000 + 500000)))
for way in resident cached once direct; do expect "bytes read into the server ($way)" "$(metric "read_${way}_bytes_total")" = 0; done
expect "windows that were not held" "$(metric windows_not_held_total)" = 0
expect "faults" "$(metric tasks_panicked_total)" = 0

# openssl sees a goodbye: close_notify, and so no complaint about an unexpected end.
printf 'GET /film-007.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n' |
  openssl s_client -quiet -ign_eof -connect 127.0.0.1:8443 >/tmp/whole 2>/tmp/openssl.err
tail -c 4194304 /tmp/whole | cmp - "$FILM" || wrong "openssl got other bytes"
if grep -E 'unexpected eof|SSL routines' /tmp/openssl.err; then wrong "openssl had to complain"; fi
stopped
cmp_strace() { grep -cE "^[0-9]+ +(pread64|preadv2?|read|readv)\(.*= (65536|[1-9][0-9]{5,})" "$1" || true; }

# --- strace: what a warm film costs in calls ------------------------------------------------------------------------------------
serve --no-sandbox --route kernel --disk cached --workers 1 --listen 127.0.0.1:8443
get -o /dev/null "$S/film-020.mp4"
strace -f -qq -e trace='!futex' -o /tmp/calls -p "$SERVER" &
tracer=$!
sleep 2
same_as /library/film-020.mp4 "$S/film-020.mp4"
kill -INT "$tracer"; wait "$tracer" || true
say "calls for a film of 4 MiB: $(awk '{ sub(/\(.*/, "", $2); print $2 }' /tmp/calls | sort | uniq -c | sort -rn | awk '{ print $2, $1 }' | head -8 | paste -sd ',')"
expect "calls of sendfile" "$(grep -c 'sendfile(' /tmp/calls)" '>' 1
expect "large reads into the server" "$(cmp_strace /tmp/calls)" = 0
stopped

# --- hybrid: what is not worth memory is read past the page cache and sealed from the buffer --------------------------------------
view() { # FILM CURL-ARGUMENTS...: nobody but the server reads the film before it was sent
  local film=$1; shift
  echo 1 >/proc/sys/vm/drop_caches
  get -o /tmp/got "$@" "$S/$film"
}
right() { cmp /tmp/got "/library/$1" || wrong "the bytes of $1 are not right"; }

for policy in direct once; do
  serve --route kernel --disk "$policy" --listen 127.0.0.1:8443
  view film-011.mp4; right film-011.mp4
  view film-012.mp4 --tls-max 1.2; right film-012.mp4
  sleep 1.1
  read_bytes=$(($(metric read_direct_bytes_total) + $(metric read_once_bytes_total)))
  say "$policy: $read_bytes bytes past the page cache, sendfile $(metric sendfile_bytes_total)"
  expect "bytes past the page cache ($policy)" "$read_bytes" '>=' $((2 * 4194304))
  expect "bytes sent from the page cache ($policy)" "$(metric sendfile_bytes_total)" = 0
  stopped
done

# By heat: the first viewer's film leaves nothing in memory, the second viewer's is brought there, the third one's is there.
serve --route kernel --workers 1 --listen 127.0.0.1:8443
numbers() { sleep 1.1; echo "$(metric read_direct_bytes_total) $(metric brought_bytes_total) $(metric sendfile_bytes_total)"; }
view film-013.mp4; first=$(numbers); right film-013.mp4
view film-013.mp4; second=$(numbers); right film-013.mp4
get -o /tmp/got "$S/film-013.mp4"; third=$(numbers); right film-013.mp4
say "auto: read past the page cache, brought there, sent from there: $first; then $second; then $third"
expect "bytes that the first viewer left in memory" "${first#* }" is "0 0"
expect "bytes that the second viewer's film was read past memory" "$(awk -v a="$first" -v b="$second" 'BEGIN { split(a, f); split(b, s); print s[1] - f[1] }')" '<' 2097152
expect "bytes sent from memory to the second and third viewers" "${third##* }" '>' $((6 << 20))
expect "bytes that the third viewer's film was read past memory" "$(awk -v a="$second" -v b="$third" 'BEGIN { split(a, f); split(b, s); print s[1] - f[1] }')" = 0
stopped

# --- plain HTTP by sendfile -----------------------------------------------------------------------------------------------------
serve --route kernel --tls off --listen 127.0.0.1:8080
S=http://127.0.0.1:8080
for _ in 1 2; do asked_for; done
expect "bytes sent by the kernel without TLS" "$(metric sendfile_bytes_total)" '>' 4194304
stopped
