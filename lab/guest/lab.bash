# shellcheck shell=bash
# The functions of scenarios: output, assertions, serving. Read first: docs/lab.md.

PS4='+ $SECONDS ' # the trace of a scenario on its console
ADMIN=127.0.0.1:9443

say() { printf 'lab: | %s\n' "$*"; } # a measured value, which the host shows
wrong() { printf 'lab: wrong: %s\n' "$*"; exit 1; }

expect() { # WHAT ACTUAL OPERATOR EXPECTED: numbers with < <= = >= >, anything else with "is"
  if [ "$3" = is ]; then
    [ "$2" = "$4" ] || wrong "$1 is \"$2\", expected \"$4\""
  else
    awk -v a="$2" -v b="$4" "BEGIN { exit !(a ${3/#=/==} b) }" || wrong "$1 is $2, expected $3 $4"
  fi
}

eventually() { # SECONDS COMMAND...: until it succeeds
  local end=$((SECONDS + $1)); shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || wrong "this did not succeed in time: $*"
    sleep 0.1
  done
}

# --- the server ----------------------------------------------------------------------------------------------------------------

serve() { # ARGUMENTS...: starts a server of LIBRARY (/library) in SERVER; its output is in /tmp/fullbore.log
  : >/tmp/fullbore.log
  (ulimit -n 20000; exec fullbore serve "${LIBRARY:-/library}" --state /tmp/state --admin "$ADMIN" "$@") >>/tmp/fullbore.log 2>&1 &
  SERVER=$!
  eventually 60 serving
}

serve_by() { # ROUTE ARGUMENTS...
  if [ "$1" = kernel ]; then modprobe tls; fi
  serve --route "$@"
}

serving() {
  kill -0 "$SERVER" 2>/dev/null || { cat /tmp/fullbore.log; wrong "the server ended at its start"; }
  grep -q '^ready ' /tmp/fullbore.log
}

stopped() { # stops the server; its exit code has to be 0
  local status=0
  kill -TERM "$SERVER"
  wait "$SERVER" || status=$?
  expect "exit code of the server" "$status" = 0
}

settled() { sleep 2; } # numbers of the disk and of buffers are updated once a second

metrics() { # in bash alone: on an emulated processor, starting curl takes longer than the response
  exec 8<>"/dev/tcp/${ADMIN/://}"
  printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&8
  cat <&8
  exec 8>&-
}

metric() { # NAME (with labels, without fullbore_); a missing one is 0
  metrics | awk -v name="fullbore_$1" '$1 == name { print $2; found = 1 } END { if (!found) print 0 }'
}

ended() { metric "connections_ended_total{reason=\"$1\"}"; } # REASON: how many connections ended for it
has_ended() { [ "$(ended "$1")" -ge "$2" ]; } # REASON COUNT, for eventually
tls_stat() { awk -v name="$1" '$1 == name { print $2; found = 1 } END { if (!found) print 0 }' /proc/net/tls_stat; } # the kernel's own counters

rss_kib() { awk '/^VmRSS:/ { print $2 }' "/proc/$SERVER/status"; }

# --- the other server ----------------------------------------------------------------------------------------------------------

nginx_serves() { # LINES...: starts an nginx of /library in SERVER, with these lines for its server; the certificate is a fullbore's
  mkdir -p /tmp/nginx
  cat >/tmp/nginx/nginx.conf <<TEXT
daemon off; master_process off; user root; pid /tmp/nginx/pid; error_log /tmp/nginx/error.log;
events { worker_connections 100; }
http {
  types { video/mp4 mp4; }
  access_log off; sendfile on; tcp_nopush on; send_timeout 15s; output_buffers 2 512k; open_file_cache max=100; if_modified_since before;
  client_body_temp_path /tmp/nginx/body; proxy_temp_path /tmp/nginx/proxy; fastcgi_temp_path /tmp/nginx/fastcgi;
  uwsgi_temp_path /tmp/nginx/uwsgi; scgi_temp_path /tmp/nginx/scgi;
  ssl_certificate /tmp/state/self-signed-cert.pem; ssl_certificate_key /tmp/state/self-signed-key.pem;
  ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_buffer_size 16k;
  server { root /library; $* }
}
TEXT
  nginx -c /tmp/nginx/nginx.conf -p /tmp/nginx -e /tmp/nginx/error.log >/tmp/nginx/said 2>&1 &
  SERVER=$!
  eventually 60 nginx_ready
}
nginx_ready() {
  kill -0 "$SERVER" 2>/dev/null || { cat /tmp/nginx/said /tmp/nginx/error.log; wrong "nginx ended at its start"; }
  [ -n "$(ss -Hltnp | grep nginx)" ]
}
nginx_ends() { kill -TERM "$SERVER"; wait "$SERVER" || true; }

# The kernel's counts for all workers since counting_waits: how often one slept for a disk, for how many ms, for how many ms it slept for
# anything else uninterruptible, and for how many ms it waited for a processor. (Delay accounting, field 42 of stat, also counts waiting in
# the ring, whatever the ring waits for. Schedstats do not.)
counting_waits() { echo 1 >/proc/sys/kernel/sched_schedstats; }
worker_waits() {
  local task
  for task in /proc/"$SERVER"/task/*; do
    if grep -q '^worker-' "$task/comm"; then cat "$task/sched"; fi
  done | awk '$1 == "iowait_count" { count += $3 } $1 == "iowait_sum" { disk += $3 } $1 == "sum_block_runtime" { any += $3 } $1 == "wait_sum" { processor += $3 }
    END { printf "%d %d %d %d\n", count, disk, any - disk, processor }'
}

# --- guides --------------------------------------------------------------------------------------------------------------------

# Guides that scenarios follow word by word (machine.bash puts them into /lab/docs). Examples are the indented lines.
guide() { # DOCUMENT HEADING NUMBER: the lines of an example under that heading, counted from 1
  awk -v heading="$2" -v wanted="$3" '
    /^#+ / { title = $0; sub(/^#+ /, "", title); number = 0; inside = 0 }
    title == heading && /^    / { if (!inside++) number++; if (number == wanted) { print substr($0, 5); found = 1 } }
    /^[^ ]/ { inside = 0 }
    END { exit !found }' "/lab/docs/$1" || wrong "$1 has no example $3 under \"$2\""
}
follow() { guide "$@" >/tmp/commands; bash -eux /tmp/commands; } # DOCUMENT HEADING NUMBER
follow_settings() { guide "$@" >/tmp/settings; sysctl -qp /tmp/settings; } # the same for an example of sysctl.conf

# --- viewers -------------------------------------------------------------------------------------------------------------------

get() { curl -sSk --fail "$@"; }

same_as() { # FILE CURL-ARGUMENTS...: every byte
  local file=$1; shift
  get "$@" | cmp - "$file" || wrong "the bytes of $file are not those of: curl $*"
}

same_part() { # FILE FIRST LAST CURL-ARGUMENTS...: the bytes FIRST to LAST
  local file=$1 first=$2 last=$3; shift 3
  get --range "$first-$last" "$@" >/tmp/part
  expect "length of bytes $first-$last" "$(stat -c %s /tmp/part)" = "$((last - first + 1))"
  cmp -n "$((last - first + 1))" -s /tmp/part "$file" 0 "$first" || wrong "bytes $first-$last of $file are not those of: curl $*"
}

has_bytes() { [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -ge "$2" ]; } # FILE BYTES, for eventually

# A viewer in the middle of a film, VIEWER: it takes 400 KB, then some 40 KB/s, and the rest when released. Its bytes are in /tmp/got-NAME,
# curl's output in /tmp/said-NAME.
begin() { # NAME CURL-ARGUMENTS...; FROM=elsewhere for a viewer behind a link
  local name=$1; shift
  rm -f "/tmp/go-$name" "/tmp/got-$name"
  ${FROM:-} curl -sSk "$@" 2>"/tmp/said-$name" | slowly "/tmp/go-$name" >"/tmp/got-$name" &
  VIEWER=$!
  eventually 60 has_bytes "/tmp/got-$name" 400000
}
slowly() { # FILE: until it exists. dd reads no more bytes than it writes, which not every head does.
  dd bs=20000 count=20 iflag=fullblock 2>/dev/null
  while [ ! -e "$1" ]; do dd bs=20000 count=1 2>/dev/null; sleep 0.5; done
  cat
}
go_on() { : >"/tmp/go-$1"; wait "$2"; } # NAME VIEWER: fails if curl did

# --- network -------------------------------------------------------------------------------------------------------------------

# A link to a viewer elsewhere: the server is 10.9.0.1, commands run by `elsewhere` are at 10.9.0.2. Segments are sent one by one, so that
# a lost packet is one packet.
link_made() {
  ip netns add elsewhere
  ip link add near type veth peer name far netns elsewhere
  ip addr add 10.9.0.1/24 dev near
  ip -n elsewhere addr add 10.9.0.2/24 dev far
  ip link set near up
  ip -n elsewhere link set far up
  ip -n elsewhere link set lo up
  ethtool -K near tso off gso off >/dev/null
}

# Two cables between the server (10.9.0.1, near0 and near1) and elsewhere (10.9.0.2, far0 and far1), bonded at both ends.
bond_made() { # MODE [MORE OPTIONS OF THE BOND...]
  local leg
  ip netns add elsewhere
  ip link add bond type bond mode "$1" miimon 50 "${@:2}"
  ip -n elsewhere link add bond type bond mode "$1" miimon 50 "${@:2}"
  for leg in 0 1; do
    ip link add "near$leg" type veth peer name "far$leg" netns elsewhere
    ip link set "near$leg" master bond
    ip -n elsewhere link set "far$leg" master bond
  done
  ip addr add 10.9.0.1/24 dev bond
  ip -n elsewhere addr add 10.9.0.2/24 dev bond
  ip link set bond up
  ip -n elsewhere link set bond up
}
bond_gone() { ip netns del elsewhere; ip link del bond; }
bytes_over() { cat "/sys/class/net/near$1/statistics/tx_bytes"; } # LEG: what the server has sent over one of them

# What cards take: TLS 1.2 with this cipher.
# shellcheck disable=SC2034 # scenarios use it
TLS12=(--tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-GCM-SHA256)

# How many connections went to a card, to the kernel or unclear; were withheld from the kernel; were established by a route.
got() { metric "card_tls_connections_total{got=\"$1\"}"; }
withheld() { metric "kernel_tls_withheld_total{reason=\"$1\"}"; }
routed() { metric "connections_by_route_total{route=\"$1\"}"; }

serve_with_nic() { # NIC ROUTE: no path is too lossy; card-watch tests that
  printf '[tls]\nnic = "%s"\nnic_lost_bytes_percent = 100.0\nnic_lost_segments_percent = 100.0\n' "$1" >/tmp/nic.toml
  serve_by "$2" --config /tmp/nic.toml --disk cached --listen 0.0.0.0:8443
}

# Checks the viewer of a film that changed: it got right bytes of the old film, and was disconnected before the last of them, for this reason.
cut_off() { # NAME REASON
  eventually 60 has_ended "$2" 1
  if go_on "$1" "$VIEWER"; then wrong "curl had nothing to complain about: $1"; fi
  local got_bytes
  got_bytes=$(stat -c %s "/tmp/got-$1")
  say "$1: $got_bytes right bytes, then $2"
  expect "bytes of $1 that came" "$got_bytes" '<' 4194304
  cmp -n "$got_bytes" "/tmp/got-$1" "/library/$1.mp4" || wrong "the viewer of $1 got a byte of another version"
}

# Cards that encrypt (lab/card), each on a wire to a viewer elsewhere: card0 is 10.9.0.1 and leads to card1 elsewhere, 10.9.0.2; card2 is
# 10.9.1.1 and leads to card3, 10.9.1.2.
cards_made() { # PAIRS: without addresses if ADDRESSES is no
  local pair near far
  modprobe fullbore_card pairs="$1" || wrong "the lab's network card was not built for this kernel"
  ip netns add elsewhere
  ip -n elsewhere link set lo up
  for ((pair = 0; pair < $1; pair++)); do
    near=card$((2 * pair)) far=card$((2 * pair + 1))
    ip link set "$far" netns elsewhere
    if [ "${ADDRESSES:-}" = no ]; then continue; fi
    ip addr add "10.9.$pair.1/24" dev "$near"
    ip -n elsewhere addr add "10.9.$pair.2/24" dev "$far"
    ip link set "$near" up
    ip -n elsewhere link set "$far" up
  done
}
card_stat() { ethtool -S "card$1" | awk -v name="$2:" '$1 == name { print $2 }'; } # CARD COUNTER
card_sessions() { echo $(($(card_stat "$1" tx_tls_ctx) - $(card_stat "$1" tx_tls_del))); } # CARD: connections that it has now
card_is() { echo "$2" >"/sys/module/fullbore_card/parameters/$1"; } # PARAMETER VALUE
card_said() { say "card$1: $(ethtool -S "card$1" | awk '/_/ && $2 > 0 { print $1, $2 }' | paste -sd ' ')"; } # CARD

# Watches a wire of a card for bytes of a film in clear, from elsewhere. Only films of random bytes can be distinguished from encrypted bytes.
wire_watched() { # CARD FILE
  rm -f "/tmp/wire-$1"
  ip netns exec elsewhere wire "card$1" "$2" "/tmp/wire-$1" & # itself, and no shell that waits for it
  eval "WIRE_$1=$!"
  eventually 60 test -s "/tmp/wire-$1"
}
wire_told() { # CARD: sets WIRE_PACKETS and WIRE_CLEAR
  local watcher=WIRE_$1
  kill -TERM "${!watcher}"
  wait "${!watcher}" || wrong "the watcher of card$1 failed"
  WIRE_PACKETS=$(awk '$1 == "packets" { print $2 }' "/tmp/wire-$1") WIRE_CLEAR=$(awk '$1 == "clear" { print $2 }' "/tmp/wire-$1")
}
wire_clean() { # CARD: nothing of the film was on its wire in clear
  wire_told "$1"
  say "the wire of card$1: $WIRE_PACKETS packets, $WIRE_CLEAR in clear"
  expect "packets on the wire of card$1" "$WIRE_PACKETS" '>' 0
  expect "packets in clear on the wire of card$1" "$WIRE_CLEAR" = 0
}
# The watcher must see bytes in clear. Call it while the wire of card1 is watched, with the same film.
wire_seen() { # FILE
  elsewhere nc -l -p 7 >/dev/null &
  eventually 60 elsewhere sh -c 'ss -Hltn sport = :7 | grep -q .'
  head -c 100000 "$1" >/dev/tcp/10.9.0.2/7 # no nc, which ends when the other end has nothing to say
  wire_told 1
  expect "packets in clear that were sent in clear" "$WIRE_CLEAR" '>=' 1
}

elsewhere() { ip netns exec elsewhere "$@"; }
counted() { nstat -asz "$1" | awk -v name="$1" '$1 == name { print $2 }'; } # a counter of the kernel's network
