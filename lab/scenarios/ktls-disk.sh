#!/bin/bash
# shows: on the kernel route, disk policy and a film's heat decide from where the film is read, and plain HTTP uses sendfile
# machines: plain
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
modprobe tls

view() { # FILM CURL-ARGUMENTS...: only the server reads the film before it is sent
  local film=$1; shift
  echo 1 >/proc/sys/vm/drop_caches
  get -o /tmp/got "$@" "$S/$film"
}
right() { cmp /tmp/got "/library/$1" || wrong "the bytes of $1 are not right"; }

# --- films that are not worth memory are read past the page cache and encrypted from the buffer ----------------------------------------------
for policy in direct once; do
  serve --route kernel --disk "$policy" --listen 127.0.0.1:8443
  view film-011.mp4; right film-011.mp4
  view film-012.mp4 --tls-max 1.2; right film-012.mp4
  settled
  read_bytes=$(($(metric read_direct_bytes_total) + $(metric read_once_bytes_total)))
  say "$policy: $read_bytes bytes past the page cache, sendfile $(metric sendfile_bytes_total)"
  expect "bytes past the page cache ($policy)" "$read_bytes" '>=' $((2 * 4194304))
  expect "bytes sent from the page cache ($policy)" "$(metric sendfile_bytes_total)" = 0
  stopped
done

# --- films that are worth memory and not in it are read into it through the ring ----------------------------------------------------------
serve --route kernel --disk cached --listen 127.0.0.1:8443
view film-014.mp4; right film-014.mp4
settled
say "cached: read into memory $(metric brought_bytes_total), sendfile $(metric sendfile_bytes_total)"
expect "bytes of a cold film sent from the page cache" "$(metric sendfile_bytes_total)" = 4194304
expect "bytes that were read into memory" "$(metric brought_bytes_total)" '>' 0
stopped

# --- by heat: the first viewer's film leaves nothing in memory, the second viewer's is read into it, the third viewer's is in it already -----
serve --route kernel --workers 1 --listen 127.0.0.1:8443
numbers() { settled; echo "$(metric read_direct_bytes_total) $(metric brought_bytes_total) $(metric sendfile_bytes_total)"; }
view film-013.mp4; first=$(numbers); right film-013.mp4
view film-013.mp4; second=$(numbers); right film-013.mp4
get -o /tmp/got "$S/film-013.mp4"; third=$(numbers); right film-013.mp4
say "auto: read past the page cache, read into it, sent from it: $first; then $second; then $third"
expect "bytes that the first viewer left in memory" "${first#* }" is "0 0"
expect "bytes that the second viewer's film was read past memory" "$((${second%% *} - ${first%% *}))" '<' 2097152
expect "bytes sent from memory to the second and third viewers" "${third##* }" '>' $((6 << 20))
expect "bytes that the third viewer's film was read past memory" "$((${third%% *} - ${second%% *}))" = 0
stopped

# --- plain HTTP by sendfile -------------------------------------------------------------------------------------------------------
serve --route kernel --disk cached --tls off --listen 127.0.0.1:8080
S=http://127.0.0.1:8080
for _ in 1 2; do
  same_part /library/film-007.mp4 1000001 3000000 "$S/film-007.mp4"
  same_part /library/hole.mp4 4719000000 4719640575 "$S/hole.mp4"
  same_as /library/empty.mp4 "$S/empty.mp4"
  same_as /library/film-008.mp4 "$S/film-008.mp4"
done
settled
expect "bytes sent by the kernel without TLS" "$(metric sendfile_bytes_total)" '>=' $((2 * (4194304 + 2000000 + 640576)))
stopped
