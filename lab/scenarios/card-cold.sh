#!/bin/bash
# shows: films that are not in memory, where a card encrypts, are read into the page cache, sent from there by sendfile without a copy, and dropped once the viewer has them. The server reads no byte, and no served byte stays in the page cache. Films that are requested again stay
# machines: plain
# machines long: newest
# deadline: 300
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://10.9.0.1:8443
BYTES=4194304
film() { printf '/library/film-%03d.mp4' "$1"; }
films() { for ((number = $1; number <= $2; number++)); do film "$number"; echo; done; } # FIRST LAST
cached_of() { films "$@" | xargs perl /lab/guest/cached.pl; } # FIRST LAST: bytes of these in the page cache
cached() { perl /lab/guest/cached.pl "$@"; } # FILES: bytes of them in the page cache
fetch() { elsewhere curl -sSk "${@:2}" "$S/$(basename "$(film "$1")")" >/tmp/got; } # NUMBER CURL-ARGUMENTS...
right() { cmp /tmp/got "$(film "$1")" || wrong "film $1 is not right"; }
read_bytes() { echo $(($(metric read_resident_bytes_total) + $(metric read_cached_bytes_total) + $(metric read_once_bytes_total) + $(metric read_direct_bytes_total))); }
forgotten() { sync; echo 1 >/proc/sys/vm/drop_caches; }

# Pages that are only partly in a dropped range stay: one at each end of a range, and none of a whole film.
edges=8192 whole=0

cards_made 1
cat "$(film 21)" "$(film 25)" >/tmp/all
wire_watched 1 /tmp/all
modprobe tls
printf '[tls]\nnic = "on"\nnic_lost_bytes_percent = 100.0\nnic_lost_segments_percent = 100.0\n' >/tmp/nic.toml # no path is too lossy
serve --route auto --no-sandbox --workers 1 --config /tmp/nic.toml --listen 0.0.0.0:8443

# --- four films, of which each has one viewer -------------------------------------------------------------------------------------
forgotten
expect "bytes of films in the page cache at first" "$(cached_of 21 30)" = 0
before=$(awk '/^Cached:/ { print $2 }' /proc/meminfo)
strace -f -qq -s 0 -e trace='!futex' -o /tmp/calls -p "$SERVER" &
tracer=$!
eventually 30 grep -q . /tmp/calls
for ((number = 21; number <= 24; number++)); do
  fetch "$number" "${TLS12[@]}"
  mv /tmp/got "/tmp/got-$number" # compared later, because that reads the films
done
settled
kill -INT "$tracer"; wait "$tracer" || true
left=$(cached_of 21 24)
after=$(awk '/^Cached:/ { print $2 }' /proc/meminfo)
say "4 films, $((4 * BYTES)) bytes: sent from the page cache $(metric sendfile_bytes_total), read into it first $(metric brought_bytes_total), for one viewer $(metric sent_once_bytes_total); read into the server $(read_bytes); left in the page cache $left"
say "not read into the page cache: $(metric windows_not_brought_total) windows; the whole page cache grew by $((after - before)) KiB, of which $((4 * BYTES / 1024)) are the viewers' copies in memory"
expect "connections that the card got" "$(card_stat 0 tx_tls_ctx)" = 4
expect "bytes that the kernel sent from the page cache" "$(metric sendfile_bytes_total)" = $((4 * BYTES))
expect "bytes of these that were for one viewer" "$(metric sent_once_bytes_total)" = $((4 * BYTES))
expect "bytes read into the server" "$(read_bytes)" = 0
expect "bytes taken from a hot set" "$(metric read_hot_bytes_total)" = 0
expect "bytes of films left in the page cache" "$left" '<=' "$whole"
expect "growth of the whole page cache, in KiB, without the viewers' copies" "$((after - before - (4 * BYTES + left) / 1024))" '<' 4096
sent=$(awk '/ sendfile(\(| resumed).* = [0-9]+$/ { sum += $NF } END { print sum + 0 }' /tmp/calls)
largest=$(awk '/ (read|readv|pread64|preadv2?|write|writev|sendto|sendmsg)(\(| resumed).* = [0-9]+$/ && $NF > most { most = $NF } END { print most + 0 }' /tmp/calls)
say "calls: $(awk '$2 != "<..." { sub(/\(.*/, "", $2); print $2 }' /tmp/calls | sort | uniq -c | sort -rn | awk '{ print $2, $1 }' | head -8 | paste -sd ',')"
expect "bytes that sendfile says it sent" "$sent" = $((4 * BYTES))
expect "the most that a call moved into the server or out of it" "$largest" '<' 16384
for ((number = 21; number <= 24; number++)); do mv "/tmp/got-$number" /tmp/got; right "$number"; done

# --- losses: retransmissions read from the page cache again, where bytes stay until they are acknowledged -----------------------------
forgotten
card_is lose 50
fetch 25 "${TLS12[@]}"
card_is lose 0
settled
expect "packets out of order" "$(card_stat 0 tx_tls_ooo)" '>' 0
expect "bytes left in the page cache after losses" "$(cached "$(film 25)")" '<=' "$whole"
right 25

# --- ranges, which begin and end within pages -----------------------------------------------------------------------------------------
forgotten
elsewhere curl -sSk "${TLS12[@]}" --range 1000001-3000000 "$S/film-026.mp4" >/tmp/got
settled
left=$(cached "$(film 26)")
say "a range of 2000000 bytes left $left in the page cache"
expect "bytes that a range left in the page cache" "$left" '<=' "$edges"
cmp -n 2000000 /tmp/got "$(film 26)" 0 1000001 || wrong "a range is not right"

# --- viewers who leave -----------------------------------------------------------------------------------------------------------------
forgotten
elsewhere sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_rmem'
FROM=elsewhere begin left "${TLS12[@]}" "$S/film-027.mp4"
say "in the middle of a film: $(cached "$(film 27)") bytes in the page cache"
kill "$VIEWER"
is_gone() { [ -z "$(ss -Htn state established sport = :8443)" ]; }
eventually 60 is_gone
is_dropped() { [ "$(cached "$(film 27)")" -le "$edges" ]; }
eventually 30 is_dropped

# --- films that are requested again are worth memory --------------------------------------------------------------------------------------------
forgotten
once=$(metric sent_once_bytes_total)
fetch 28 "${TLS12[@]}"
fetch 28 "${TLS12[@]}"
settled
say "requested twice: $(($(metric sent_once_bytes_total) - once)) bytes for one viewer, $(cached "$(film 28)") left in the page cache"
expect "bytes for one viewer, of a film that two requested" "$(($(metric sent_once_bytes_total) - once))" '<' $((BYTES + BYTES / 2))
expect "bytes of it in the page cache" "$(cached "$(film 28)")" '>' $((BYTES / 2))
right 28

# --- in addition: a viewer of TLS 1.3, for whom the server encrypts ------------------------------------------------------------------------
fetch 29 --tlsv1.3 # the card's attempt
fetch 30 --tlsv1.3
settled
say "TLS 1.3: read into the server $(read_bytes)"
right 30
card_said 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
wire_clean 1
