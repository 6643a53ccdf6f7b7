#!/bin/bash
# shows: how many system calls a MiB takes with nginx and on each route, and how many of its bytes pass through user space (none on the kernel route); how many bytes kernel TLS copies without sendfile; how often the thread that serves viewers sleeps for a disk, with sendfile alone, thread pools, aio and on each route
# machines: plain
# deadline: 600
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

# Counts only, because times of an emulated machine mean nothing. Warm films, one worker, one viewer (curl) behind a link with packets of
# ordinary size, all under strace. Operations of the ring are no system calls, so they are counted separately, from the ring. Reading the
# clock does not count: it is a system call only with a poor clock, which this machine may have.
FILMS=(film-001 film-002)
MIB=8
for film in "${FILMS[@]}"; do cat "/library/$film.mp4"; done >/tmp/films
ASKED_FOR="{$(IFS=,; echo "${FILMS[*]}")}.mp4"
S=https://10.9.0.1:8443
H=http://10.9.0.1:8443
modprobe tls
counting_waits
link_made
ethtool -K near tso on gso on >/dev/null

all_traced() { ! grep -q '^TracerPid:.0$' /proc/"$SERVER"/task/*/status; }
# A descriptor may be closed between being listed and read.
ring_operations() { { cat /proc/"$SERVER"/fdinfo/* 2>/dev/null || true; } | awk '/^SqTail:/ { sum += $2 } END { print sum + 0 }'; }
traced() { # FILE COMMAND...: the server's calls meanwhile
  local tracer status=0
  strace -f -qq -s 0 -o "$1" -p "$SERVER" 2>/dev/null &
  tracer=$!
  eventually 30 all_traced
  "${@:2}" || status=$?
  kill -INT "$tracer"; wait "$tracer" || true
  return "$status"
}
transfer() { # URL: sets SECONDS_TAKEN
  local began=$EPOCHREALTIME status=0
  elsewhere curl -sSk --fail "$1" | cmp - /tmp/films || status=$?
  SECONDS_TAKEN=$(awk -v began="$began" -v now="$EPOCHREALTIME" 'BEGIN { printf "%.1f", now - began }')
  return "$status"
}
# Some calls depend on time and not on bytes, and an emulated processor takes long for a MiB. So the cost of the same time without a viewer is subtracted.
count() { # ROW URL: into /tmp/table; READ, WRITTEN and SENT are bytes that calls moved into user space, out of it, and past it
  local url=$2 before operations calls names right=1
  get -o /dev/null "$url/$ASKED_FOR"
  before=$(ring_operations)
  traced /tmp/calls transfer "$url/$ASKED_FOR" || right=0
  operations=$(($(ring_operations) - before))
  traced /tmp/idle sleep "$SECONDS_TAKEN"
  # nginx with kernel TLS was seen to stall forever now and then, on Linux 6.1: net::Socket::cork says how to avoid that.
  if [ "$right" = 0 ] && [[ $1 = *nginx* ]]; then say "$1: the bytes are not right"; return; fi
  [ "$right" = 1 ] || wrong "$1: the bytes are not right"
  # Mapped files could be read without a call.
  if grep '/library/.*mp4' "/proc/$SERVER/maps" | grep -v ' ---[ps] '; then wrong "$1: a film is mapped so that it can be read"; fi
  read -r READ WRITTEN SENT calls names < <(summed /tmp/idle /tmp/calls)
  printf '%s|%s|%s|%s|%s|%s|%s\n' "$1" "$((READ / MIB))" "$((WRITTEN / MIB))" "$((SENT / MIB))" \
    "$(per_mib "$calls")" "$(per_mib "$operations")" "$names" >>/tmp/table
}
slept() { # how often the threads that serve viewers have slept for a disk; those of nginx's pools serve none
  local task
  for task in /proc/"$SERVER"/task/*; do
    case $(cat "$task/comm") in
      worker-*) cat "$task/sched" ;;
      nginx) if [ "${task##*/}" = "$SERVER" ]; then cat "$task/sched"; fi ;;
    esac
  done | awk '$1 == "iowait_count" { sum += $3 } END { print sum + 0 }'
}
cold() { # ROW URL: SLEPT and into /tmp/cold, of films that are not in memory
  local before right=1
  get -o /dev/null "$2/film-003.mp4"
  sync; echo 3 >/proc/sys/vm/drop_caches
  before=$(slept)
  elsewhere curl -sSk --fail "$2/$ASKED_FOR" | cmp - /tmp/films || right=0
  SLEPT=$(($(slept) - before))
  if [ "$right" = 0 ] && [[ $1 = *nginx* ]]; then say "$1: the bytes are not right"; return; fi
  [ "$right" = 1 ] || wrong "$1, from disk: the bytes are not right"
  printf '%s|%s\n' "$1" "$SLEPT" >>/tmp/cold
}
per_mib() { awk -v n="$1" -v mib="$MIB" 'BEGIN { printf "%.1f", n / mib }'; }
summed() { # IDLE FILE: bytes read, written and sent past user space, calls, and names with calls per MiB, without as many as without a viewer
  awk -v mib="$MIB" '
    { sign = FILENAME == ARGV[1] ? -1 : 1 }
    { name = $2 == "<..." ? $3 : $2; sub(/\(.*/, "", name); bytes = $NF ~ /^[0-9]+$/ && !/unfinished/ ? $NF : 0 }
    name ~ /^(clock_gettime|gettimeofday)$/ { next }
    $2 != "<..." { calls[name] += sign; all += sign }
    sign < 0 { next }
    name ~ /^(read|readv|pread64|preadv2?|recvfrom|recvmsg)$/ { into += bytes }
    name == "io_getevents" { rest = $0; while (match(rest, /res=[0-9]+/)) { into += substr(rest, RSTART + 4, RLENGTH - 4); rest = substr(rest, RSTART + RLENGTH) } }
    name ~ /^(write|writev|sendto|sendmsg)$/ { out += bytes }
    name ~ /^(sendfile|splice)$/ { past += bytes }
    END {
      printf "%d %d %d %d", into, out, past, all
      for (name in calls) if (calls[name] >= mib / 2) printf " %s:%.1f", name, calls[name] / mib
      printf "\n"
    }' "$1" "$2"
}
counts_all() { # whether the count sees a byte moved by any call: a program moves 64 KiB by each
  strace -f -qq -s 0 -o /tmp/touching perl /lab/guest/touching.pl /library/film-001.mp4
  grep ' = 65536$' /tmp/touching >/tmp/touched # not Perl's own reads, in smaller pieces
  read -r READ WRITTEN _ < <(summed /dev/null /tmp/touched)
  expect "bytes that were read, and seen" "$READ" = $((7 * 65536))
  expect "bytes that were written, and seen" "$WRITTEN" = $((4 * 65536))
}
by_user_space() { expect "$1: bytes of a MiB through user space" "$(((READ + WRITTEN) / MIB))" "$2" "$3"; }

counts_all
for route in kernel userspace; do
  serve --no-sandbox --route "$route" --disk cached --workers 1 --listen 10.9.0.1:8443
  count "TLS, fullbore $route" "$S"
  case $route in
    kernel) by_user_space "$route" '<' 8192; expect "bytes by sendfile ($route)" "$SENT" '>=' $((MIB << 20)) ;;
    userspace) by_user_space "$route" '>=' $((2 << 20)) ;;
  esac
  settled
  for way in cached once direct; do expect "bytes that were read through the ring ($way)" "$(metric "read_${way}_bytes_total")" '<' $((1 << 20)); done
  cold "TLS, fullbore $route" "$S"
  expect "sleeps of the worker for a disk ($route)" "$SLEPT" = 0
  stopped
  serve --no-sandbox --route "$route" --disk cached --workers 1 --tls off --listen 10.9.0.1:8443
  count "HTTP, fullbore $route" "$H"
  if [ "$route" = kernel ]; then by_user_space "plain HTTP, $route" '<' 8192; fi
  cold "HTTP, fullbore $route" "$H"
  expect "sleeps of the worker for a disk (plain HTTP, $route)" "$SLEPT" = 0
  stopped
done

nginx_serves "listen 10.9.0.1:8443 ssl;"
count "TLS, nginx" "$S"
nginx_ends
sealed=$(tls_stat TlsTxSw)
nginx_serves "listen 10.9.0.1:8443 ssl; ssl_conf_command Options KTLS;"
get -o /dev/null "$S/film-001.mp4"
if [ "$(tls_stat TlsTxSw)" -gt "$sealed" ]; then
  count "TLS, nginx with kernel TLS" "$S"
  cold "TLS, nginx with kernel TLS" "$S"
  nginx_ends
  nginx_serves "listen 10.9.0.1:8443 ssl; ssl_conf_command Options KTLS; sendfile off;"
  count "TLS, nginx with kernel TLS, without sendfile" "$S"
  by_user_space "kernel TLS without sendfile" '>=' $((2 << 20))
  nginx_ends
  nginx_serves "listen 10.9.0.1:8443 ssl; ssl_conf_command Options KTLS; aio threads;"
  count "TLS, nginx with kernel TLS and thread pools" "$S"
  cold "TLS, nginx with kernel TLS and thread pools" "$S"
else
  say "this machine's nginx has no kernel TLS: its OpenSSL is built without"
fi
nginx_ends
nginx_serves "listen 10.9.0.1:8443;"
count "HTTP, nginx" "$H"
cold "HTTP, nginx" "$H"
nginx_ends
nginx_serves "listen 10.9.0.1:8443; aio threads;"
count "HTTP, nginx with thread pools" "$H"
cold "HTTP, nginx with thread pools" "$H"
nginx_ends
# Linux's aio only supports reads past the page cache, and no sendfile.
if nginx -V 2>&1 | grep -q with-file-aio; then
  nginx_serves "listen 10.9.0.1:8443; sendfile off; aio on; directio 512;"
  count "HTTP, nginx with aio" "$H"
  cold "HTTP, nginx with aio" "$H"
  nginx_ends
else
  say "this machine's nginx has no aio: it is built without --with-file-aio"
fi

say "of each MiB: bytes read into user space | written out of it | sent past it | system calls | ring operations | calls by name"
sort /tmp/table | while read -r line; do say "$line"; done
say "of $MIB MiB from disk: how often who serves viewers slept for it"
sort /tmp/cold | while read -r line; do say "$line"; done
