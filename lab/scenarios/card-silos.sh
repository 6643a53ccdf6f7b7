#!/bin/bash
# shows: with --silo disk and a card that encrypts for each silo, a card gets keys only once the first title is known: each connection gets the card of its first film's silo, whatever it requested before, and no film is unencrypted on any wire
# machines: four-nodes newest
# deadline: 420
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash
# shellcheck source=lab/guest/four-nodes.bash
. /lab/guest/four-nodes.bash

SILOS=$(nproc)
CONNECTIONS=8 # for films of each silo

# A folder for each silo: on four nodes the disk of each, else memory with films of the one disk.
if [ "$SILOS" = 4 ]; then
  library_of_four_disks
else
  mkdir /tmp/films
  for ((silo = 0; silo < SILOS; silo++)); do cp "/library/film-00$silo.mp4" "/library/film-01$silo.mp4" /tmp/films; done
  umount /library
  mount -t tmpfs tmpfs /library
  for ((silo = 0; silo < SILOS; silo++)); do
    mkdir "/library/node$silo"
    mount -t tmpfs tmpfs "/library/node$silo"
    mv "/tmp/films/film-00$silo.mp4" "/tmp/films/film-01$silo.mp4" "/library/node$silo"
  done
fi
cpu_of() { if [ "$SILOS" = 4 ]; then node_of_disk "$1"; else echo "$1"; fi; } # SILO: each node of four has the CPU of its number
film() { echo "/node$1/film-0$2$1.mp4"; } # SILO NUMBER

# One address over all cards: those with even numbers are the server's, and the mark of a silo leads to its card.
ADDRESSES=no cards_made "$SILOS"
ip link add service type dummy
ip addr add 192.0.2.10/32 dev service
ip link set service up
sysctl -qw net.ipv4.conf.all.rp_filter=2
ip -n elsewhere addr add 10.8.0.2/32 dev lo
elsewhere sysctl -qw net.ipv4.conf.all.rp_filter=2
for ((silo = 0; silo < SILOS; silo++)); do
  near=card$((2 * silo)) far=card$((2 * silo + 1))
  ip addr add "10.9.$silo.1/24" dev "$near"
  ip link set "$near" up
  ip -n elsewhere addr add "10.9.$silo.2/24" dev "$far"
  ip -n elsewhere link set "$far" up
  ip rule add fwmark $((silo + 1)) lookup "10$silo"
  ip route add default via "10.9.$silo.2" dev "$near" table "10$silo"
  printf '[[silos]]\ncpus = "%s"\ncards = ["%s"]\nfolders = ["/library/node%s"]\nmark = %s\n' "$(cpu_of "$silo")" "$near" "$silo" $((silo + 1)) >>/tmp/silos
done
ip route add default via 10.9.0.2
ip -n elsewhere route add 192.0.2.10 via 10.9.0.1 src 10.8.0.2
for ((silo = 0; silo < SILOS; silo++)); do eventually 30 ping -c 1 -W 1 "10.9.$silo.2"; done
eventually 30 elsewhere ping -c 1 -W 1 192.0.2.10

{ printf '[tls]\nnic = "on"\nnic_lost_bytes_percent = 100.0\nnic_lost_segments_percent = 100.0\n'; cat /tmp/silos; } >/tmp/nic.toml
modprobe tls
serve --route auto --silo disk --disk cached --config /tmp/nic.toml --listen 0.0.0.0:8443
eventually 30 grep -q '^admin ' /tmp/fullbore.log
grep -E '^(silo|silos|cards) ' /tmp/fullbore.log | while read -r line; do say "$line"; done

keys() { local silo; for ((silo = 0; silo < SILOS; silo++)); do card_stat $((2 * silo)) tx_tls_ctx; done | paste -sd ' '; }
sealed() { local silo; for ((silo = 0; silo < SILOS; silo++)); do card_stat $((2 * silo)) tx_tls_encrypted_bytes; done | paste -sd ' '; }
more_for() { # SILO COUNT NUMBERS: NUMBERS with COUNT more for this silo
  echo "$3" | awk -v at=$(($1 + 1)) -v more="$2" '{ $at += more; print }'
}
part() { echo "$1" | awk -v at=$(($2 + 1)) '{ print $at }'; } # NUMBERS SILO
S=https://192.0.2.10:8443
viewer() { elsewhere curl -sSk "${TLS12[@]}" "$@"; }

# --- films of each silo, each on a connection of its own ------------------------------------------------------------------------------

for ((silo = 0; silo < SILOS; silo++)); do
  path=$(film "$silo" 0)
  for ((other = 0; other < SILOS; other++)); do wire_watched $((2 * other + 1)) "/library$path"; done
  before=$(keys) sealed_before=$(sealed)
  for ((number = 0; number < CONNECTIONS; number++)); do
    viewer --fail "$S$path" | cmp - "/library$path" || wrong "the film of silo $silo is not right"
  done
  expect "keys by card after films of silo $silo" "$(keys)" is "$(more_for "$silo" "$CONNECTIONS" "$before")"
  grown=$(($(part "$(sealed)" "$silo") - $(part "$sealed_before" "$silo")))
  say "films of silo $silo: keys by card $before, then $(keys); card$((2 * silo)) encrypted $grown bytes"
  expect "bytes that the card of silo $silo encrypted" "$grown" '>=' $((CONNECTIONS * $(stat -c %s "/library$path")))
  expect "bytes that other cards encrypted" "$(more_for "$silo" "$grown" "$sealed_before")" is "$(sealed)"
  for ((other = 0; other < SILOS; other++)); do
    wire_told $((2 * other + 1))
    say "the wire of card$((2 * other + 1)): $WIRE_PACKETS packets, $WIRE_CLEAR in clear"
    expect "packets in clear on the wire of card$((2 * other + 1))" "$WIRE_CLEAR" = 0
    if [ "$other" = "$silo" ]; then expect "packets on the wire of card$((2 * other + 1))" "$WIRE_PACKETS" '>' 10000; fi
  done
done
total=$((SILOS * CONNECTIONS))
expect "connections that a card got, as the server counted" "$(got card)" = "$total"
expect "connections that the CPU got" "$(got cpu)" = 0
expect "connections that cannot be assigned to a card" "$(got unclear)" = 0
expect "connections of the kernel route" "$(routed kernel)" = "$total"
expect "moves" "$(metric connections_moved_total)" '>' 0
say "$total connections, $(metric connections_moved_total) moves"

# --- a connection that requests something else first, and films of two silos ------------------------------------------------------

last=$((SILOS - 1))
first=$(film "$last" 1) second=$(film 0 1)
wire_watched 1 "/library$second"
wire_watched $((2 * last + 1)) "/library$first"
before=$(keys) refused=$(metric 'connections_move_refused_total{reason="bound"}')
viewer "$S/" -o /tmp/shelf "$S/nothing.mp4" -o /tmp/nothing "$S$first" -o /tmp/first "$S$second" -o /tmp/second
cmp /tmp/first "/library$first" || wrong "the first film is not right"
cmp /tmp/second "/library$second" || wrong "the second film is not right"
expect "keys by card, of a connection that asked for a page and for nothing before its first film" "$(keys)" is "$(more_for "$last" 1 "$before")"
expect "moves refused, to the second film" "$(metric 'connections_move_refused_total{reason="bound"}')" = $((refused + 1))
wire_clean 1
wire_clean $((2 * last + 1))

# --- connections that no card takes, and those that request no film -------------------------------------------------------------------

before=$(keys)
for ((silo = 0; silo < SILOS; silo++)); do
  path=$(film "$silo" 1)
  elsewhere curl -sSk --tlsv1.3 --fail "$S$path" | cmp - "/library$path" || wrong "the film of silo $silo is not right over TLS 1.3"
done
userspace=$(routed userspace)
viewer -o /dev/null "$S/nothing.mp4"
route_counted() { [ "$(routed userspace)" = $((userspace + 1)) ]; }
eventually 10 route_counted
expect "keys by card after TLS 1.3, and after a connection without a film" "$(keys)" is "$before"
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
for ((silo = 0; silo < SILOS; silo++)); do card_said $((2 * silo)); done
