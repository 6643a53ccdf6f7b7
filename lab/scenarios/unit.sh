#!/bin/bash
# shows: the packaged systemd unit under a real systemd: the kernel sends a library that belongs to root, the server reads a key that belongs to root, a reload is an upgrade, and restart and stop work
# machines: plain newest
# with: systemd
# deadline: 600
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

FILM=/library/film-007.mp4
UNIT=/etc/systemd/system/fullbore.service
SAID=/run/fullbore-said # the unit's output goes here, because there is no journal

# As docs/serve.md says, with root's library of the lab in its place.
mkdir -p /usr/local/bin /srv/video "$UNIT.d"
cp /bin/fullbore /usr/local/bin/
cp /lab/packaging/fullbore.service "$UNIT"
mount -o remount,rw /library
chmod 755 /library
mount --bind /library /srv/video
expect "owner of the film" "$(stat -c %u:%a "$FILM")" is 0:644

drop_in() { # NAME LINES...
  local name=$1; shift
  printf '%s\n' '[Service]' "$@" >"$UNIT.d/$name.conf"
}
drop_in said "StandardOutput=append:$SAID" "StandardError=append:$SAID"

# Restarts the unit with the present text of the unit and its drop-ins.
begins_anew() {
  rm -f "$SAID"
  systemctl daemon-reload
  systemctl restart fullbore || { cat "$SAID"; wrong "the unit does not start"; }
  SERVER=$(systemctl show -P MainPID fullbore)
  eventually 60 grep -q '^admin ' "$SAID"
  grep -E '^(route|workers|sandbox|lacking) ' "$SAID" | while read -r line; do say "$line"; done
}
capabilities() { awk -v set="Cap$1:" '$1 == set { print $2 }' "/proc/$SERVER/status"; } # SET: in hexadecimal
leases() { awk '$2 == "LEASE"' /proc/locks | wc -l; }
has_cachestat() { [ "$(printf '%s\n6.5\n' "$(uname -r)" | sort -V | head -n 1)" = 6.5 ]; }

# --- speed, shown by counts -----------------------------------------------------------------------------------------------------

say "systemd $(systemctl --version | awk 'NR == 1 { print $2 }')"
SERVE_PLAIN="ExecStart=/usr/local/bin/fullbore serve /srv/video --listen [::]:80 --tls off --state /var/lib/fullbore --access-log /var/log/fullbore/access.log"
drop_in plain ExecStart= "$SERVE_PLAIN"
begins_anew
expect "user of the server" "$(stat -c %u "/proc/$SERVER")" '>' 60000 # a dynamic user of systemd
cat "$FILM" >/dev/null # into the page cache: a film requested for the first time is read directly
same_as "$FILM" http://localhost/film-007.mp4
say "$(metric sendfile_bytes_total) bytes sent by the kernel, $(leases) leases, $(metric windows_not_held_total) windows not held"
expect "bytes that the kernel sent by itself" "$(metric sendfile_bytes_total)" = 4194304
expect "windows that were not held" "$(metric windows_not_held_total)" = 0
expect "leases" "$(leases)" '>' 0
expect "reported lacks" "$(grep -c '^lacking ' "$SAID" || true)" = "$(has_cachestat && echo 0 || echo 1)"
has_cachestat || grep -q '^lacking   cachestat: this kernel has no cachestat' "$SAID" || wrong "it does not say what an old kernel lacks"
expect "lines in the access log" "$(wc -l </var/log/fullbore/access.log)" = 1

# CAP_FOWNER and CAP_LEASE are left. Executed programs could get at most what the unit allows.
expect "effective capabilities" "$(capabilities Eff)" is 0000000010000008
expect "permitted capabilities" "$(capabilities Prm)" is 0000000010000008
expect "inheritable capabilities" "$(capabilities Inh)" is 0000000000000000
expect "ambient capabilities" "$(capabilities Amb)" is 0000000000000000
expect "bounding capabilities" "$(capabilities Bnd)" is 0000000010000408

# --- without them --------------------------------------------------------------------------------------------------------------

drop_in fewer AmbientCapabilities= AmbientCapabilities=CAP_NET_BIND_SERVICE
begins_anew
same_as "$FILM" http://localhost/film-007.mp4
expect "bytes that the kernel sent by itself" "$(metric sendfile_bytes_total)" = 0
expect "leases" "$(leases)" = 0
grep -q '^lacking   read leases: .*belongs to another user' "$SAID" || wrong "it does not say that it has no leases"
grep -q '^lacking   page cache: .*belongs to another user' "$SAID" || wrong "it does not report that it cannot see what is in memory"
if grep '^route ' "$SAID" | grep -q sendfile; then wrong "it claims to use sendfile"; fi

# --- marks, by which routes choose a port: with the guide's drop-in --------------------------------------------------------------

printf '[[silos]]\ncpus = "0"\nmark = 1\n[[silos]]\ncpus = "1"\nmark = 2\n' >/etc/silos.toml
drop_in plain ExecStart= "$SERVE_PLAIN --silo disk --config /etc/silos.toml"
begins_anew # with fewer capabilities
same_as "$FILM" http://localhost/film-007.mp4
grep -q '^silos .*connections have no marks (Operation not permitted' "$SAID" || wrong "it does not say that it may not set marks"
rm "$UNIT.d"/fewer.conf
guide ports.md "By the node of the film's disk, with \`--silo disk\`" 2 >"$UNIT.d/marks.conf"
begins_anew
same_as "$FILM" http://localhost/film-007.mp4
expect "silos with marks" "$(grep -c '^silo [01] .*; mark [12]$' "$SAID")" = 2
expect "effective capabilities, with CAP_NET_RAW" "$(capabilities Eff)" is 0000000010002008
rm "$UNIT.d"/{marks,plain}.conf

# --- a key that only root may read, renewed ------------------------------------------------------------------------------------

printf '[req]\ndistinguished_name = name\n[name]\n' >/tmp/openssl.cnf
pair() { # FOLDER
  mkdir -p "$1"
  openssl req -config /tmp/openssl.cnf -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$1/privkey.pem" -out "$1/fullchain.pem" 2>/dev/null
  chmod 600 "$1/privkey.pem"
}
pair /tmp/first
pair /tmp/second
mkdir -m 700 /etc/certificate
cp -p /tmp/first/* /etc/certificate/
sed 's|^Environment=CERTIFICATE=.*|Environment=CERTIFICATE=/etc/certificate|' /lab/packaging/certificate.conf >"$UNIT.d/certificate.conf"
begins_anew
trusting() { curl -sS --fail --cacert "/tmp/$1/fullchain.pem" "${@:2}" https://localhost/film-007.mp4; } # PAIR CURL-ARGUMENTS...
trusting first | cmp - "$FILM"
expect "who may read the copy of the key" "$(stat -c %u:%a /run/fullbore/privkey.pem)" is "$(stat -c %u "/proc/$SERVER"):600"
CAPABILITIES=$(capabilities Eff)
begin watching --cacert /tmp/first/fullchain.pem https://localhost/film-007.mp4

# A reload puts another process in the place of the one that runs.
cp -p /tmp/second/* /etc/certificate/
systemctl reload fullbore || { cat "$SAID"; wrong "a reload with a renewed certificate fails"; }
serves_with() { trusting "$1" -o /dev/null -r 0-9 2>/dev/null; }
eventually 60 serves_with second
OLD=$SERVER
has_changed() { SERVER=$(systemctl show -P MainPID fullbore); [ "$SERVER" != "$OLD" ]; }
eventually 60 has_changed
say "reloaded: another main process, and a renewed certificate, whose key only root may read"
expect "state after a reload" "$(systemctl show -P ActiveState fullbore)" is active
expect "user of the new process" "$(stat -c %u "/proc/$SERVER")" = "$(stat -c %u "/proc/$OLD")"
expect "effective capabilities of the new process" "$(capabilities Eff)" is "$CAPABILITIES"
expect "the new process is in the unit" "$(grep -c fullbore.service "/proc/$SERVER/cgroup")" '>' 0
go_on watching "$VIEWER"
cmp /tmp/got-watching "$FILM" || wrong "the viewer who was there before the reload got other bytes"
has_ended_process() { [ ! -e "/proc/$OLD" ]; }
eventually 60 has_ended_process
expect "state after the old process has ended" "$(systemctl show -P ActiveState fullbore)" is active
serves_with second || wrong "no server answers after the old process has ended"

# A configuration that cannot be served is refused, and the server goes on.
drop_in wrong ExecReload= "ExecReload=/usr/local/bin/fullbore upgrade /no/such/library --listen [::]:443 --state /var/lib/fullbore"
systemctl daemon-reload
if systemctl reload fullbore; then wrong "a reload with a missing library succeeds"; fi
expect "the main process after a failed reload" "$(systemctl show -P MainPID fullbore)" = "$SERVER"
serves_with second || wrong "no server answers after a failed reload"
# Scripts tell by the exit code, as docs/operate.md says, whether a restart is the only way.
reload_ended_with() { [[ $(systemctl show -P ExecReload fullbore) == *status="$1"[!0-9]* ]]; }
reload_ended_with 1 || wrong "the exit code of the failed reload: $(systemctl show -P ExecReload fullbore)"
drop_in wrong ExecReload= "ExecReload=/usr/local/bin/fullbore upgrade --origin http://127.0.0.1:9 --cache /var/lib/fullbore/cache --listen [::]:443 --state /var/lib/fullbore"
systemctl daemon-reload
if systemctl reload fullbore; then wrong "a reload succeeds that makes a caching edge"; fi
reload_ended_with 3 || wrong "the exit code of a reload that never succeeds: $(systemctl show -P ExecReload fullbore)"
expect "the main process after it" "$(systemctl show -P MainPID fullbore)" = "$SERVER"
rm "$UNIT.d/wrong.conf"
systemctl daemon-reload

# SIGHUP loads certificates in the process that runs.
# shellcheck disable=SC2016 # the unit's own variable
sh -ec "$(sed -n 's/^Environment="COPY=\(.*\)"$/\1/p' "$UNIT.d/certificate.conf" | sed 's/%%/%/; s|$CERTIFICATE|/tmp/first|')"
systemctl kill --signal=HUP --kill-whom=main fullbore
eventually 60 serves_with first
eventually 60 grep -q 'certificates reloaded on request' "$SAID"
expect "the main process after SIGHUP" "$(systemctl show -P MainPID fullbore)" = "$SERVER"
say "a failed reload changes nothing; SIGHUP loads certificates"

# systemd notices when the process dies that took the place of its own.
kill -KILL "$SERVER"
OLD=$SERVER
is_restarted() { has_changed && [ "$SERVER" != 0 ] && serves_with second; }
eventually 60 is_restarted
say "the upgraded process was killed, and the service was started again"

# --- the end -------------------------------------------------------------------------------------------------------------------

systemctl restart fullbore
eventually 60 serves_with second
systemctl stop fullbore
expect "result" "$(systemctl show -P Result fullbore)" is success
expect "exit code" "$(systemctl show -P ExecMainStatus fullbore)" = 0
[ ! -e /run/fullbore ] || wrong "copies of the key are left"
expect "leases after the end" "$(leases)" = 0
