#!/bin/bash
# shows: one address over four ports, each on its own node: with --silo network at least 99% of the bytes leave by the port of arrival, with --silo disk by the port of the disk's node, and when a link goes down in the middle of films every byte arrives over the others
# machines: four-nodes
# deadline: 450
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

# The commands are those of docs/ports.md, word by word: the server has the interfaces eth0 to eth3 that the guide speaks of, and so has the router,
# in a namespace of its own. The emulated cards have no network between them, so each gets two macvlans: these are on the node of their card.
PORTS=(0 1 2 3)
NODE=() # of each port

ip netns add router
ip netns add elsewhere
for port in "${PORTS[@]}"; do
  NODE[port]=$(cat "/sys/class/net/eth$port/device/../numa_node")
  ip link set "eth$port" down
  ip link set "eth$port" name "card$port"
  sysctl -qw "net.ipv6.conf.card$port.accept_ra=0" # the emulator advertises a router
  ip link set "card$port" up
  ip link add "eth$port" link "card$port" type macvlan mode bridge
  ip link add "far$port" link "card$port" type macvlan mode bridge
  ip link set "far$port" netns router name "eth$port"
  ip -n router addr add "10.0.$port.1/24" dev "eth$port"
  ip -n router addr add "fd00:0:0:$port::1/64" dev "eth$port" nodad
  ip -n router link set "eth$port" up
done
expect "nodes of the ports" "$(printf '%s\n' "${NODE[@]}" | sort | paste -sd ' ')" is "0 1 2 3"

# Viewers, behind the router.
ip link add towards netns router type veth peer name far netns elsewhere
ip -n router addr add 10.8.0.1/24 dev towards
ip -n router addr add fd08::1/64 dev towards nodad
ip -n elsewhere addr add 10.8.0.2/24 dev far
ip -n elsewhere addr add fd08::2/64 dev far nodad
ip -n router link set towards up
ip -n elsewhere link set far up
ip -n elsewhere route add default via 10.8.0.1
ip -n elsewhere -6 route add default via fd08::1
ip netns exec router sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
elsewhere sh -c 'echo "4096 65536 131072" >/proc/sys/net/ipv4/tcp_rmem' # most of a film is still to be sent when a viewer is slow

# --- the guide's commands --------------------------------------------------------------------------------------------------------

follow ports.md Addresses 1
follow_settings ports.md Settings 1
follow ports.md "Routes out" 1
follow ports.md "Routes out" 2
guide ports.md "At the router" 1 >/tmp/commands
ip netns exec router bash -eux /tmp/commands
for port in "${PORTS[@]}"; do eventually 30 ping -c 1 -W 1 "10.0.$port.1"; done
eventually 30 elsewhere ping -c 1 -W 1 192.0.2.10
eventually 30 elsewhere ping -6 -c 1 -W 1 2001:db8::10

# --- a library with a folder on each node's disk -----------------------------------------------------------------------------------

umount /library
mount -t tmpfs tmpfs /library
disk_of() { # NODE: its disk's name
  local disk
  for disk in /sys/block/nvme*n1; do if [ "$(cat "$disk/device/device/numa_node")" = "$1" ]; then basename "$disk"; fi; done
}
for node in 0 1 2 3; do
  mkdir "/library/node$node"
  mount -o ro,noatime "/dev/$(disk_of "$node")" "/library/node$node"
done
port_of() { local port; for port in "${PORTS[@]}"; do if [ "${NODE[port]}" = "$1" ]; then echo "$port"; fi; done; } # NODE

# --- counting --------------------------------------------------------------------------------------------------------------------

sent() { cat "/sys/class/net/eth$1/statistics/tx_bytes"; }
count_from_here() { local port; for port in "${PORTS[@]}"; do BEFORE[port]=$(sent "$port"); done; }
since() { echo $(($(sent "$1") - BEFORE[$1])); } # PORT
since_all() { local port sum=0; for port in "${PORTS[@]}"; do sum=$((sum + $(since "$port"))); done; echo "$sum"; }
BEFORE=()
# What the server counted by the card on which connections arrived: bytes of films, without what TLS and TCP add.
arrived_on() { metrics | awk -v card="card=\"$1\"" '/^fullbore_path_bytes_total/ && index($1, card) { sum += $2 } END { printf "%d\n", sum }'; } # SILO
silo_of() { grep -o "^silo [0-9]* .*eth$1" /tmp/fullbore.log | awk '{ print $2 }'; } # PORT

fetch() { # HOST NODE FILM CONNECTIONS: over as many ports as the router chooses
  local number films=()
  for ((number = 0; number < $4; number++)); do films+=(-o "/tmp/film-$number" "https://$1:8443/node$2/film-$3.mp4"); done
  elsewhere curl -sSk --fail -H "Connection: close" "${films[@]}"
  for ((number = 0; number < $4; number++)); do
    cmp "/tmp/film-$number" "/library/node$2/film-$3.mp4" || wrong "film $3 of node $2 is not right"
  done
}

# --- a link goes down ------------------------------------------------------------------------------------------------------------

# As if the cable were pulled: both ends see it.
cable() { ip link set "eth$1" protodown "$2"; ip -n router link set "eth$1" protodown "$2"; } # PORT on|off
is_routed_by() { ip route get 10.8.0.2 from 192.0.2.10 mark "$(($1 + 1))" | grep -q "dev eth$1"; } # PORT

through_a_failure() { # PLACEMENT NODE: of a disk, four of whose films are being sent
  local film viewers=() before port=0 other
  count_from_here
  for film in 001 002 003 004; do
    FROM=elsewhere begin "$film" "https://192.0.2.10:8443/node$2/film-$film.mp4"; viewers+=("$VIEWER")
  done
  # What the guide says to look at: a route by mark, a port's counter, and the marks of the connections.
  guide ports.md "Check it" 1 | sed 's/:443 /:8443 /' >/tmp/commands
  bash -eux /tmp/commands >/tmp/checked
  expect "routes by mark that the guide shows" "$(grep -c '^198.51.100.1 .* dev eth1 ' /tmp/checked)" = 1
  expect "connections whose mark the guide shows" "$(grep -c 'fwmark:0x[1-4]' /tmp/checked)" '>=' 4
  # The port that has sent most of it.
  for other in "${PORTS[@]}"; do if [ "$(since "$other")" -gt "$(since "$port")" ]; then port=$other; fi; done
  cable "$port" on
  eventually 10 sh -c "! ip route get 10.8.0.2 from 192.0.2.10 mark $((port + 1)) | grep -q 'dev eth$port'"
  before=$(sent "$port")
  count_from_here
  for film in "${!viewers[@]}"; do
    go_on "00$((film + 1))" "${viewers[film]}" || wrong "a viewer was lost with its link ($1): $(cat "/tmp/said-00$((film + 1))")"
    cmp "/tmp/got-00$((film + 1))" "/library/node$2/film-00$((film + 1)).mp4" || wrong "film 00$((film + 1)) is not right after a link went down ($1)"
  done
  say "$1: eth$port went down in the middle of four films; bytes by port since: $(for other in "${PORTS[@]}"; do since "$other"; done | paste -sd ' ')"
  expect "bytes by the port that is down" "$(($(sent "$port") - before))" '<' 20000
  expect "bytes by the others" "$(since_all)" '>' 8000000
  cable "$port" off
  eventually 10 is_routed_by "$port"
}

# --- by network: the kernel marks connections by their port of arrival ---------------------------------------------------------

modprobe nf_tables
guide ports.md "By port of arrival, with \`--silo network\`" 1 >/tmp/ports.nft
nft -f /tmp/ports.nft
follow_settings ports.md "By port of arrival, with \`--silo network\`" 2

serve --silo network --listen '[::]:8443'
eventually 30 grep -q '^admin ' /tmp/fullbore.log
count_from_here
for node in 0 1 2 3; do
  fetch 192.0.2.10 "$node" "00$node" 6
  fetch "[2001:db8::10]" "$node" "00$node" 2
done
settled
total=0
for port in "${PORTS[@]}"; do
  came=$(arrived_on "$(silo_of "$port")") left=$(since "$port") total=$((total + came))
  say "by network, eth$port on node ${NODE[port]}: $came bytes of films for connections that came in by it, $left bytes left by it"
  # TLS and TCP add 0.7%. Missing bytes left by a wrong port, and bytes above that came from one.
  expect "bytes that left by eth$port" "$left" '>=' "$came"
  expect "bytes that left by eth$port" "$left" '<=' $((came * 1017 / 1000))
done
expect "bytes of films" "$total" '>=' $((32 * 4194304)) # and of a head for each
expect "connections on the node of their card" "$(metric 'connections_by_home_total{home="own"}')" = 32
through_a_failure "by network" 0
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped

# --- by disk: the server marks connections by the silo of their film's disk ------------------------------------------------------

nft delete table inet ports
sysctl -qw net.ipv4.tcp_fwmark_accept=0
for port in "${PORTS[@]}"; do
  node=${NODE[port]}
  printf '[[silos]]\ncpus = "%s"\ncards = ["eth%s"]\nfolders = ["/library/node%s"]\nmark = %s\n' "$node" "$port" "$node" $((port + 1))
done >/tmp/silos.toml

serve --silo disk --listen '[::]:8443' --config /tmp/silos.toml
eventually 30 grep -q '^admin ' /tmp/fullbore.log
grep -E '^(silo|sandbox)' /tmp/fullbore.log | while read -r line; do say "$line"; done
for node in 0 1 2 3; do
  port=$(port_of "$node")
  count_from_here
  fetch 192.0.2.10 "$node" "00$node" 6
  fetch "[2001:db8::10]" "$node" "00$node" 2
  say "by disk, films of node $node: $(since "$port") of $(since_all) bytes left by eth$port"
  expect "bytes of node $node" "$(since_all)" '>' $((8 * 4194304))
  expect "bytes of node $node that left by its port" "$(since "$port")" '>=' $((($(since_all) * 99 + 99) / 100))
done

# One connection that takes films of all nodes by turns, and moves with each. Its viewer counts what came out of order.
disordered() { elsewhere nstat -asz TcpExtTCPOFOQueue | awk '$1 == "TcpExtTCPOFOQueue" { print $2 }'; }
before=$(disordered) moved=$(metric connections_moved_total)
films=()
for round in 1 2 3; do for node in 0 1 2 3; do films+=(-o "/tmp/film-$round-$node" "https://192.0.2.10:8443/node$node/film-01$round.mp4"); done; done
elsewhere curl -sSk --fail "${films[@]}"
for round in 1 2 3; do
  for node in 0 1 2 3; do cmp "/tmp/film-$round-$node" "/library/node$node/film-01$round.mp4" || wrong "film 01$round of node $node is not right"; done
done
settled
moved=$(($(metric connections_moved_total) - moved))
say "one connection, twelve films: $moved moves from port to port, $(($(disordered) - before)) segments out of order at its viewer"
expect "moves of one connection" "$moved" '>=' 3
through_a_failure "by disk" 2
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
