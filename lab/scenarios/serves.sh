#!/bin/bash
# shows: every byte is right over TLS 1.2, TLS 1.3 and plain HTTP, and a server that gets the signal to stop drains
# machines: plain trixie newest
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-007.mp4
S=https://127.0.0.1:8443
HOLE_BYTES=$(stat -c %s /library/hole.mp4)

# Pages of a file that are in the page cache: cachestat(2), by its number on x86-64, since Linux 6.5.
pages_cached() { # FILE
  perl -e 'open(my $f, "<", shift) or die $!; my ($all, $said) = ("\0" x 16, "\0" x 40);
    syscall(451, fileno($f), $all, $said, 0) == 0 or die "cachestat: $!\n"; print((unpack "Q5", $said)[0])' "$1"
}
drops_pages_read_once() { [ "$(printf '%s\n6.14\n' "$(uname -r)" | sort -V | head -n 1)" = 6.14 ]; }

# Checks that hold for every kernel.
asked_for() { # URL CURL-ARGUMENTS...
  local url=$1; shift
  same_as "$FILM" "$@" "$url/film-007.mp4"
  same_part "$FILM" 1000001 3000000 "$@" "$url/film-007.mp4"
  same_part /library/hole.mp4 $((HOLE_BYTES - 1500000)) $((HOLE_BYTES - 1)) "$@" "$url/hole.mp4"
  same_as /library/empty.mp4 "$@" "$url/empty.mp4"
  cat "$FILM" /library/film-008.mp4 >/tmp/two
  same_as /tmp/two "$@" "$url/film-007.mp4" "$url/film-008.mp4"
  get --range 10-19,3000000-3000009 "$@" "$url/film-007.mp4" >/tmp/parts
  grep -aiq "content-range: bytes 3000000-3000009/4194304" /tmp/parts || wrong "several ranges came without their second part"
  expect "status of a missing file" "$(curl -sk -o /dev/null -w '%{http_code}' "$@" "$url/nothing.mp4")" is 404
}

for policy in auto cached direct once; do
  serve --disk "$policy" --listen 127.0.0.1:8443
  if [ "$policy" = auto ]; then
    eventually 60 grep -q '^sandbox ' /tmp/fullbore.log # it says more after it is ready
    grep -E '^(route|disk|workers|sandbox) ' /tmp/fullbore.log | while read -r line; do say "$line"; done
    asked_for "$S" --tlsv1.3 --tls13-ciphers TLS_AES_128_GCM_SHA256
    asked_for "$S" --tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-GCM-SHA256
  elif [ "$policy" = once ] && drops_pages_read_once; then
    # Checked before any other program reads the film.
    echo 1 >/proc/sys/vm/drop_caches
    get -o /tmp/got "$S/film-007.mp4"
    left=$(pages_cached "$FILM")
    settled
    say "once: $(metric read_once_bytes_total) bytes read, of which $left of 1024 pages are in the page cache"
    expect "bytes read by RWF_DONTCACHE" "$(metric read_once_bytes_total)" '>=' 4194304
    expect "bytes read past the page cache instead" "$(metric read_direct_bytes_total)" = 0
    # Pages that two windows in flight use at once may stay: a folio is evicted only if it is not in use at that moment.
    expect "pages that reading once left behind" "$left" '<' 256
    cmp /tmp/got "$FILM"
    expect "pages that are there after a reading of another kind" "$(pages_cached "$FILM")" '>' 768
  else
    same_as "$FILM" "$S/film-007.mp4"
    same_as /library/film-009.mp4 "$S/film-009.mp4"
  fi
  stopped
done

serve --listen 127.0.0.1:8443
for suite in TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do same_as "$FILM" --tlsv1.3 --tls13-ciphers "$suite" "$S/film-007.mp4"; done
for suite in AES256-GCM-SHA384 CHACHA20-POLY1305; do same_as "$FILM" --tls-max 1.2 --ciphers "ECDHE-ECDSA-$suite" "$S/film-007.mp4"; done
get "http://$ADMIN/metrics" | sed -n 's/^fullbore_handshakes_total{suite="\(.*\)"} / /p' >/tmp/suites || true
expect "suites that were agreed on" "$(curl -sS "http://$ADMIN/metrics" | grep -c '^fullbore_handshakes_total')" = 4
expect "faults" "$(metric tasks_panicked_total)" = 0

# A viewer in the middle of a film gets the rest of it, and then the server ends by itself.
get --limit-rate 1M "$S/film-010.mp4" >/tmp/slow &
viewer=$!
eventually 60 [ -s /tmp/slow ]
kill -TERM "$SERVER"
turns_away() { ! curl -sk --max-time 5 -o /dev/null "$S/empty.mp4"; }
eventually 60 turns_away
wait "$viewer" || wrong "the viewer that was being served when the server got the signal to stop lost its connection"
cmp -s /tmp/slow /library/film-010.mp4 || wrong "the bytes of a drained viewer are wrong"
wait "$SERVER" || wrong "the server did not end with 0 after draining"
say "drained: a viewer in the middle of a film got all of it"

serve --tls off --listen 127.0.0.1:8080
asked_for http://127.0.0.1:8080
stopped
