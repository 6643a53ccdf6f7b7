#!/bin/bash
# shows: on the kernel route, keys change in the middle of a film, at the viewer's request and after a number of records; many long requests are answered; forbidden messages are answered with the right alert
# machines: plain newest
# deadline: 200
# tests: serving
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
ended() { metric "connections_ended_total{reason=\"$1\"}"; }
stat_of() { metric "kernel_tls_events_total{event=\"$1\"}"; }

modprobe tls
changes_keys=0
if grep -q TlsTxRekeyOk /proc/net/tls_stat; then changes_keys=1; fi

serve_with() { # NAME VALUE: of [tls]; slow enough that a film takes two seconds
  printf '[net]\npacing_bits_per_second = 16000000\n[tls]\n%s = %s\n' "$1" "$2" >/tmp/fullbore.toml
  serve --config /tmp/fullbore.toml --route kernel --disk cached --workers 1 --listen 127.0.0.1:8443
}

# A viewer of a film who types commands of openssl meanwhile: k changes its own keys, K asks us to change ours as well. The body, as far as
# it came, is in /tmp/body; openssl's output is in /tmp/said.
view_and_type() { # FILM COMMAND...
  local film=$1 command typed=0; shift
  : >/tmp/got; : >/tmp/said; rm -f /tmp/ended
  # shellcheck disable=SC2094 # the loop waits for the text that openssl writes
  { printf 'GET /%s HTTP/1.1\r\nHost: h\r\n\r\n' "$film"
    eventually 20 grep -aq 'HTTP/1.1 200' /tmp/got # openssl takes a line as a command only if it reads it separately
    for command in "$@"; do echo "$command"; typed=$((typed + 1)); ended_or taken "$typed"; done
    ended_or has_bytes /tmp/got 4194304
    printf 'GET /empty.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'
    ended_or false
  } | { openssl s_client -connect 127.0.0.1:8443 -tls1_3 >/tmp/got 2>/tmp/said; : >/tmp/ended; } || true
  perl -e 'local $/; $_ = <STDIN>; s/.*?HTTP\/1\.1 200 .*?\r\n\r\n//s or $_ = ""; print substr($_, 0, 4194304)' </tmp/got >/tmp/body
}
taken() { [ "$(grep -ac KEYUPDATE /tmp/said)" -ge "$1" ]; } # COUNT: commands
ended_or() { # COMMAND...: until it succeeds or openssl has ended with its connection, half a minute at most
  for _ in {1..300}; do
    if [ -e /tmp/ended ] || "$@"; then return; fi
    sleep 0.1
  done
}

# --- keys that a viewer changes, and asks for, in the middle of its film ----------------------------------------------------------
serve_with versions '"both"'
eventually 10 grep -q '^sandbox ' /tmp/fullbore.log # it says more after it is ready
say "$(grep '^route ' /tmp/fullbore.log)"
view_and_type film-001.mp4 k k
cmp /tmp/body /library/film-001.mp4 || wrong "a viewer that changed its keys in the middle of a film got something else: $(cat /tmp/said)"
expect "answers to a viewer that changed its keys" "$(grep -ac 'HTTP/1.1 200' /tmp/got)" = 2
view_and_type film-002.mp4 K k K
say "key updates: received $(metric key_updates_received_total), sent $(metric key_updates_sent_total); kernel: $(stat_of TlsTxRekeyOk); sealed by the kernel on $(stat_of TlsTxSw)"
cmp /tmp/body /library/film-002.mp4 || wrong "a viewer that asked for new keys in the middle of a film got something else: $(cat /tmp/said)"
if [ "$changes_keys" = 1 ]; then
  expect "answers to a viewer that asked for new keys" "$(grep -ac 'HTTP/1.1 200' /tmp/got)" = 2
  expect "keys changed for sending" "$(stat_of TlsTxRekeyOk)" = "$(metric key_updates_sent_total)"
  expect "keys changed for sending" "$(stat_of TlsTxRekeyOk)" '>=' 1
  expect "key updates received" "$(metric key_updates_received_total)" = 5
else
  expect "answers to a viewer that asked for new keys" "$(grep -ac 'HTTP/1.1 200' /tmp/got)" = 1
  # The connection may have ended before the last was typed.
  expect "key updates received" "$(metric key_updates_received_total)" '>=' 3
  expect "orderly ends for it" "$(ended keys_fixed)" = 1
fi
expect "keys that the kernel refused" "$(stat_of TlsTxRekeyError)" = 0
stopped

# --- keys that have reached their limit -------------------------------------------------------------------------------------------------
serve_with key_records_max 64
for suite in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
  same_part /library/film-003.mp4 0 2499999 --tlsv1.3 --tls13-ciphers "$suite" "$S/film-003.mp4"
done
same_part /library/film-004.mp4 0 999999 --tls-max 1.2 "$S/film-004.mp4"
say "after 64 records: $(metric key_updates_sent_total) changes in three parts of films; kernel: $(stat_of TlsTxRekeyOk)"
expect "keys changed by count" "$(stat_of TlsTxRekeyOk)" = "$((changes_keys * $(metric key_updates_sent_total)))"
expect "keys changed by count" "$(metric key_updates_sent_total)" '>=' $((changes_keys * 6))
stopped

# --- requests: many at once, long ones, ones with a body, in each version and cipher -----------------------------------------------
serve --route kernel --disk cached --workers 1 --listen 127.0.0.1:8443
long=$(head -c 9000 /dev/zero | tr '\0' x)
for film in /library/film-00{5,6}.mp4; do head -c 600000 "$film"; done >/tmp/two
for suite in --tls13-ciphers\ TLS_{AES_128_GCM_SHA256,AES_256_GCM_SHA384,CHACHA20_POLY1305_SHA256} \
  --tls-max\ 1.2\ --ciphers\ ECDHE-ECDSA-{AES128-GCM-SHA256,AES256-GCM-SHA384,CHACHA20-POLY1305}; do
  # shellcheck disable=SC2086 # a suite is several words
  same_as /tmp/two $suite --range 0-599999 -H "X-Long: $long" "$S/film-005.mp4" "$S/film-006.mp4"
done
{ printf 'GET /empty.mp4 HTTP/1.1\r\nHost: h\r\n\r\n'; sleep 1
  for _ in $(seq 20); do printf 'GET /film-007.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes=100-199\r\n\r\n'; done
  printf 'GET /film-008.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'; } |
  openssl s_client -quiet -ign_eof -connect 127.0.0.1:8443 >/tmp/got 2>/tmp/said || wrong "openssl, after $(stat -c %s /tmp/got) bytes: $(cat /tmp/said)"
expect "answers to requests sent at once" "$(grep -ac 'HTTP/1.1 206' /tmp/got)" = 20
tail -c 4194304 /tmp/got | cmp - /library/film-008.mp4
if grep -E 'unexpected eof|SSL routines' /tmp/said; then wrong "openssl had to complain"; fi
expect "connections that the kernel sealed for" "$(stat_of TlsTxSw)" = 7
expect "connections that the kernel opened requests of" "$(stat_of TlsRxSw)" = 0
stopped
say "$(perl /lab/guest/ktls-memory.pl)"

# --- messages that no viewer should send: the server's own tests, against this kernel --------------------------------------------------------
misbehaviour=(records_reordered_repeated_damaged a_viewer_that_reports_trouble a_flood_of_empty_records)
# Its honest viewer changes keys forty times.
if [ "$changes_keys" = 1 ]; then misbehaviour+=(a_flood_of_key_updates); fi
FULLBORE_ROUTE=kernel RUST_BACKTRACE=0 tests --test-threads 2 "${misbehaviour[@]}" 2>&1 | tee /tmp/tested
say "$(grep '^test result' /tmp/tested)"
