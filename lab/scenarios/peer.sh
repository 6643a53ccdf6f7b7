#!/bin/bash
# shows: nginx and the kernel route give the same answers to the same requests: status, ranges, lengths, bytes
# machines: plain
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

asked() { # CURL-ARGUMENTS...: the response, without the parts that differ by server: error pages, boundaries between parts
  local status fields
  status=$(curl -sSk -D /tmp/head -o /tmp/body -w '%{http_code}' "$@")
  fields=$(tr -d '\r' </tmp/head | awk '{ $0 = tolower($0) } /^(content-length|content-range|content-type):/' | sort)
  echo "$status for ${*:2}"
  case $status:$fields in
    2*:*multipart*) tr -d '\r' </tmp/body | tr '[:upper:]' '[:lower:]' | grep -avE '^(--.*)?$' | sort | sha256sum ;;
    2*) printf '%s\n' "$fields"; if [ "${*: -1}" != -I ]; then sha256sum </tmp/body; fi ;;
  esac
}
answers() { # URL
  local field name
  for field in X: "Range: bytes=0-0" "Range: bytes=1000001-3000000" "Range: bytes=-100" "Range: bytes=4194303-" "Range: bytes=9999999-" \
    "Range: bytes=10-19,3000000-3000009" "If-None-Match: *" "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT" "If-Match: \"other\""; do
    asked "$1/film-001.mp4" -H "$field"
  done
  for name in film-001.mp4 empty.mp4 nothing.mp4 hole.mp4; do asked "$1/$name" -I; done
  asked "$1/empty.mp4"
  asked "$1/hole.mp4" -r 4719000000-4719640575
}

modprobe tls
serve --route kernel --disk cached --listen 127.0.0.1:8443
answers https://127.0.0.1:8443 >/tmp/answers-ours
expect "bytes that the kernel sent" "$(metric sendfile_bytes_total)" '>=' $((4194304 + 2000000 + 640576))
stopped
nginx_serves "listen 127.0.0.1:8443 ssl; ssl_conf_command Options KTLS;"
answers https://127.0.0.1:8443 >/tmp/answers-nginx
nginx_ends
say "answers compared: $(grep -c ' for ' /tmp/answers-nginx), of which $(grep -c '^20' /tmp/answers-nginx) with bytes"
expect "answers compared" "$(grep -c ' for ' /tmp/answers-nginx)" = 16
diff /tmp/answers-nginx /tmp/answers-ours || wrong "nginx (-) and the kernel route (+) answer otherwise"
