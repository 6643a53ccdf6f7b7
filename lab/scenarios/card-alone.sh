#!/bin/bash
# shows: with tls.nic on, cards get all connections that they accept, from the film's own pages, and the server reads no byte of it; with it off, they get none. When a card goes away, the server still serves
# machines: plain
# machines long: newest
# deadline: 240
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-001.mp4
S=https://10.9.0.1:8443
fetch() { elsewhere curl -sSk "$@" "$S/film-001.mp4" | cmp - "$FILM" || wrong "the film is not right: curl $*"; }

cards_made 1
wire_watched 1 "$FILM"
modprobe tls

# --- off: the server encrypts connections that leave by a card, the kernel the rest ------------------------------------------------------------
serve_with_nic off kernel
fetch "${TLS12[@]}"
same_as "$FILM" "${TLS12[@]}" https://127.0.0.1:8443/film-001.mp4
expect "connections that the card got although it must not" "$(card_stat 0 tx_tls_ctx)" = 0
expect "connections that were kept from it" "$(withheld card_off)" = 1
expect "connections that the kernel encrypted" "$(routed kernel)" = 1
stopped

# --- on, with the route auto: the card encrypts the connections that it takes, and the server the rest ---------------------------------------------------------
serve_with_nic on auto
eventually 20 grep -q '^cards' /tmp/fullbore.log
grep -E '^(route|cards)' /tmp/fullbore.log | while read -r line; do say "$line"; done
fetch "${TLS12[@]}"
expect "connections that the card got" "$(card_stat 0 tx_tls_ctx)" = 1
# Each worker tries TLS 1.3, which the kernel then encrypts on the CPU; for ever longer times after that, the server does.
tries=0
until [ "$(withheld not_taken)" -gt 0 ]; do
  expect "films by TLS 1.3, of which none was kept from the card" "$((tries += 1))" '<=' 12
  fetch --tlsv1.3
done
say "$tries films by TLS 1.3: $(got cpu) attempts, $(withheld not_taken) kept"
same_as "$FILM" "${TLS12[@]}" https://127.0.0.1:8443/film-001.mp4
expect "attempts that the card did not take" "$(got cpu)" = "$((tries - 1))"
expect "connections that were kept because the card does not take them" "$(withheld not_taken)" = 1
expect "connections that the card got, with those attempts" "$(card_stat 0 tx_tls_ctx)" = 1
expect "connections that were kept because they leave by no card" "$(withheld no_card)" = 1

# The processor touches no byte of the film: the server reads none, and the kernel copies none into records.
before_read=$(metric read_cached_bytes_total) before_sent=$(metric sendfile_bytes_total)
FROM=elsewhere begin pages "${TLS12[@]}" "$S/film-001.mp4"
say "the kernel says: $(ss -tie state established sport = :8443 | grep -o 'tcp-ulp.*' | head -n 1)"
ss -tie state established sport = :8443 | grep -q 'txconf: hw.*zc_ro_tx' || wrong "the card does not read the film's own pages"
go_on pages "$VIEWER" || wrong "a viewer was cut off: $(cat /tmp/said-pages)"
cmp /tmp/got-pages "$FILM" || wrong "the film is not right from its own pages"
settled
expect "bytes of it read into the server" "$(($(metric read_cached_bytes_total) - before_read))" = 0
expect "bytes of it that the kernel sent" "$(($(metric sendfile_bytes_total) - before_sent))" = 4194304
card_is lose 50
fetch "${TLS12[@]}"
card_is lose 0
card_said 0
wire_clean 1

# --- the card goes away under load, and the wire with it --------------------------------------------------------------------------------------------------
wire_watched 1 "$FILM"
FROM=elsewhere begin gone "${TLS12[@]}" "$S/film-001.mp4"
expect "connections on the card before it goes" "$(card_sessions 0)" = 1
rmmod fullbore_card || wrong "the card's module does not unload while a film is sent"
same_as "$FILM" https://127.0.0.1:8443/film-001.mp4
kill "$VIEWER" || true
wire_clean 1
expect "faults" "$(metric tasks_panicked_total)" = 0
kill -KILL "$SERVER" # it would wait for viewers that are gone
