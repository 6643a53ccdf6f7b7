#!/bin/bash
# shows: ffmpeg, curl and openssl get every byte and every frame from the kernel route, over TLS 1.3 and 1.2
# machines: newest
# with: player
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

modprobe virtio_blk
mkdir -p /player
mount -o ro /dev/vda /player
LIBRARY=/tmp/films # memory: the films' files belong to the server's user, as leases on them want it
mkdir "$LIBRARY"
mount -t tmpfs tmpfs "$LIBRARY"
cp /player/film/* /library/film-001.mp4 "$LIBRARY/"
S=https://127.0.0.1:8443
modprobe tls
serve --route kernel --disk cached --listen 127.0.0.1:8443

ffmpeg() { LD_LIBRARY_PATH=/player/lib /player/bin/ffmpeg -nostdin -v error -threads 2 "$@"; }
frames() { # OUT FFMPEG-ARGUMENTS...: size and hash of each picture and each piece of sound, to the end
  local out=$1; shift
  ffmpeg "$@" -f framemd5 - | awk -F, '!/^#/ { print $1, $5, $6 }' | sort >"$out"
}
handshakes() { curl -sS "http://$ADMIN/metrics" | sed -n "s/^fullbore_handshakes_total{suite=\"\(.*\)\"} / \1 /p" | paste -sd ','; }

# --- ffmpeg plays the whole film by its HLS manifest, as a player does, and gets the frames that are in the files -----------------
frames /tmp/expected -i "$LIBRARY/part-0.mp4" -i "$LIBRARY/part-1.mp4" -map 0:v -map 1:a
frames /tmp/played -i "$S/master.m3u8" -map 0:v -map 0:a
say "ffmpeg: $(grep -c '^0 ' /tmp/played) pictures and $(grep -c '^1 ' /tmp/played) pieces of sound by HLS; handshakes $(handshakes)"
expect "pictures that were played" "$(grep -c '^0 ' /tmp/played)" = 240
cmp /tmp/played /tmp/expected || wrong "ffmpeg played other frames than there are in the files"
case $(handshakes) in *TLS13* | *TLSv1_3* | *1.3*) ;; *) wrong "ffmpeg did not speak TLS 1.3: $(handshakes)" ;; esac

# --- from the middle of one file, by ranges of its own choice ----------------------------------------------------------------------
frames /tmp/expected -ss 5 -i "$LIBRARY/part-0.mp4" -map 0:v
frames /tmp/played -ss 5 -i "$S/part-0.mp4" -map 0:v
expect "pictures from the middle on" "$(wc -l </tmp/played)" '>' 60
cmp /tmp/played /tmp/expected || wrong "ffmpeg played other frames from the middle on"

# --- curl and openssl ----------------------------------------------------------------------------------------------------------------
for version in 2 3; do
  same_as /library/film-001.mp4 "--tlsv1.$version" --tls-max "1.$version" "$S/film-001.mp4"
  openssl s_client -quiet "-tls1_$version" -connect 127.0.0.1:8443 < <(printf 'GET /film-001.mp4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n') \
    >/tmp/got 2>/tmp/said || wrong "openssl ended with $?: $(cat /tmp/said)"
  perl /lab/guest/answers.pl </tmp/got 2>/dev/null | cmp - /library/film-001.mp4 || wrong "openssl got other bytes (TLS 1.$version)"
done

settled
say "sendfile $(metric sendfile_bytes_total) bytes; handshakes $(handshakes)"
expect "connections sealed for in user space" "$(metric 'connections_by_route_total{route="userspace"}')" = 0
expect "connections that the kernel sealed for" "$(tls_stat TlsTxSw)" = "$(metric 'connections_by_route_total{route="kernel"}')"
for way in resident cached once direct; do expect "bytes read into the server ($way)" "$(metric "read_${way}_bytes_total")" = 0; done
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
