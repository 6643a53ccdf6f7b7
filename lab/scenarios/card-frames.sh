#!/bin/bash
# shows: a network card that takes frames in several pieces without copies (AF_XDP) sends films from the buffers into which they were encrypted or read: the server copies none of those bytes, and every byte is right in spite of losses and a link that goes down
# machines: newest
# deadline: 300
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

cards_made 1
printf '[bypass]\ndevice = "xdp"\ninterface = "card0"\naddresses = ["10.9.0.1"]\n' >/tmp/bypass.toml
copied() { metric "bypass_copied_bytes_total{to=\"$1\"}"; }
buffers_free() { [ "$(metric "$1_buffers_free")" = "$(metric "$1_buffers")" ]; }

for tls in on off; do
  [ $tls = on ] && S=https://10.9.0.1:8443 buffers=send || S=http://10.9.0.1:8443 buffers=read
  fetch() { elsewhere curl -sSk "$@" "$S/film-001.mp4" | cmp - /library/film-001.mp4 || wrong "the film is not right: TLS $tls, curl $*"; }
  serve_by bypass --config /tmp/bypass.toml --workers 1 --tls $tls --disk direct --off hot --listen 0.0.0.0:8443
  say "$(grep AF_XDP /tmp/fullbore.log)"
  grep -q 'AF_XDP without any copies' /tmp/fullbore.log || wrong "the server does not send without copies"
  from=$(card_stat 0 lab_xdp_pieces) frames=$(card_stat 0 lab_xdp_frames)
  fetch
  fetch --range 0-
  settled
  # The handshake is in other memory, and so is the rest of a record that a window held back, which was copied once to keep it.
  say "TLS $tls: copied into frames $(copied frame), kept before $(copied kept); $(($(card_stat 0 lab_xdp_frames) - frames)) frames of $(($(card_stat 0 lab_xdp_pieces) - from)) pieces"
  expect "bytes copied into frames besides what was kept" $(($(copied frame) - $(copied kept))) '<' 16384
  expect "pieces of all frames" $(($(card_stat 0 lab_xdp_pieces) - from)) '>' $((2 * $(stat -c %s /library/film-001.mp4) / 1448))

  card_is lose 100
  fetch
  card_is lose 0
  settled
  expect "bytes that TCP sent again" "$(metric 'tcp_payload_bytes_total{kind="retransmitted"}')" '>' 0

  # While the link is down nothing comes back. Afterwards everything continues.
  FROM=elsewhere begin film-002 "$S/film-002.mp4"
  witness=$VIEWER
  ip link set card0 down; sleep 1; ip link set card0 up
  go_on film-002 "$witness" || wrong "the viewer did not get the film after the link was down"
  cmp /tmp/got-film-002 /library/film-002.mp4 || wrong "the film is not right after the link was down"
  # Viewers who leave in the middle of a film leave no buffer behind.
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do elsewhere curl -sk "$S/film-003.mp4" | head -c 300000 >/dev/null || true; done
  eventually 20 buffers_free "$buffers"
  fetch
  stopped
done
card_said 0
