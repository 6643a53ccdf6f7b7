#!/bin/bash
# shows: a film is overwritten or replaced while a card reads its pages: no viewer gets a byte of another version, even with packet losses, and no byte of either version is unencrypted on the wire
# machines: plain
# machines long: newest
# deadline: 300
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://10.9.0.1:8443
LIBRARY=/tmp/films # a writable library; serve reads this variable
mkdir "$LIBRARY"
mount -t tmpfs tmpfs "$LIBRARY"
for number in 3 4 5; do cp "/library/film-00$number.mp4" "$LIBRARY/"; done

cards_made 1
cat /library/film-0{03,04,10}.mp4 >/tmp/all # the films that are sent, and those that replace them
wire_watched 1 /tmp/all
wire_seen /library/film-010.mp4
wire_watched 1 /tmp/all
elsewhere sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_rmem'
printf '[tls]\nnic = "on"\nnic_lost_bytes_percent = 100.0\nnic_lost_segments_percent = 100.0\n' >/tmp/nic.toml # no path is too lossy
serve_by kernel --config /tmp/nic.toml --disk cached --listen 0.0.0.0:8443

FROM=elsewhere begin film-005 "${TLS12[@]}" "$S/film-005.mp4" # this one stays unchanged
witness=$VIEWER
card_is lose 50
FROM=elsewhere begin film-003 "${TLS12[@]}" "$S/film-003.mp4"
expect "connections on the card" "$(card_sessions 0)" = 2
cat /library/film-010.mp4 >"$LIBRARY/film-003.mp4" # it waits until the viewer is disconnected
cut_off film-003 file_recalled
elsewhere curl -sSk "${TLS12[@]}" "$S/film-003.mp4" | cmp - /library/film-010.mp4 || wrong "the new film is not right"
FROM=elsewhere begin film-004 "${TLS12[@]}" "$S/film-004.mp4"
expect "connections on the card, with another film's" "$(card_sessions 0)" = 2
cp /library/film-011.mp4 "$LIBRARY/.new"; mv "$LIBRARY/.new" "$LIBRARY/film-004.mp4"
cut_off film-004 file_removed
card_is lose 0
go_on film-005 "$witness" || wrong "the viewer of a film that was not changed was cut off"
cmp /tmp/got-film-005 /library/film-005.mp4 || wrong "the viewer of a film that was not changed got other bytes"
card_said 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
wire_clean 1
