#!/bin/bash
# shows: without kernel TLS, the server refuses the kernel route with a message, and auto serves; if a module or cipher is missing later, a connection only loses this route
# machines: plain
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
FILM=/library/film-004.mp4
refused() { metric "kernel_tls_refused_total{reason=\"$1\"}"; }
autoload() { echo "$1" >/proc/sys/kernel/modprobe; } # the program that the kernel runs to load a missing module

# --- no module: refused with a message, and nothing is served --------------------------------------------------------------------------
modprobe -r tls 2>/dev/null || true
autoload /bin/false
status=0
fullbore serve /library --state /tmp/state --admin 127.0.0.1:0 --listen 127.0.0.1:0 --route kernel >/tmp/refused 2>&1 || status=$?
expect "exit code without the module" "$status" = 1
expect "lines that say what to do" "$(grep -c 'modprobe tls' /tmp/refused)" = 1
expect "lines that say that it is ready" "$(grep -c '^ready ' /tmp/refused || true)" = 0
say "without the module: $(grep 'modprobe tls' /tmp/refused)"

# --- no module: auto serves ------------------------------------------------------------------------------------------------------
serve --route auto --listen 127.0.0.1:8443
same_as "$FILM" "$S/film-004.mp4"
same_as "$FILM" --tls-max 1.2 "$S/film-004.mp4"
expect "connections sealed for in user space" "$(routed userspace)" = 2
stopped

# --- a cipher that the kernel lacks ----------------------------------------------------------------------------------------------
# The socket already uses kernel TLS when its keys are refused; user space then seals on it.
modprobe tls
serve --route kernel --disk cached --listen 127.0.0.1:8443
chacha_modules() { lsmod | awk '$1 ~ /chacha|poly1305/ { print $1 }'; }
while [ -n "$(chacha_modules)" ]; do chacha_modules | xargs -n 1 modprobe -r || wrong "a cipher's module is in use"; done
same_as "$FILM" --tls13-ciphers TLS_CHACHA20_POLY1305_SHA256 "$S/film-004.mp4"
same_as "$FILM" --tls-max 1.2 --ciphers ECDHE-ECDSA-CHACHA20-POLY1305 "$S/film-004.mp4"
say "a cipher that the kernel lacks: not there $(refused not_there), version or cipher $(refused version_or_cipher)"
expect "connections whose cipher the kernel has not" "$(($(refused not_there) + $(refused version_or_cipher)))" = 2
expect "connections sealed for in user space" "$(routed userspace)" = 2
same_as "$FILM" --tls13-ciphers TLS_AES_128_GCM_SHA256 "$S/film-004.mp4"
expect "connections that the kernel sealed for" "$(routed kernel)" = 1

# --- the module goes while the server runs -----------------------------------------------------------------------------------------
before=$(refused not_there)
gone() { modprobe -r tls; }
eventually 60 gone
same_as "$FILM" --tls13-ciphers TLS_AES_128_GCM_SHA256 "$S/film-004.mp4"
same_as "$FILM" --tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-GCM-SHA256 "$S/film-004.mp4"
expect "connections for which the module was not there" "$(($(refused not_there) - before))" = 2
expect "connections sealed for in user space" "$(routed userspace)" = 4
autoload /sbin/modprobe
modprobe tls
same_as "$FILM" "$S/film-004.mp4"
expect "connections that the kernel sealed for" "$(routed kernel)" = 2
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped

# --- a kernel that refuses for another reason: setsockopt fails with ENOMEM ------------------------------------------------------------
serve --no-sandbox --route kernel --disk cached --workers 1 --listen 127.0.0.1:8443
strace -f -qq -e trace=setsockopt -e inject=setsockopt:error=ENOMEM -o /tmp/calls -p "$SERVER" &
tracer=$!
sleep 2
same_as "$FILM" "$S/film-004.mp4"
kill -INT "$tracer"; wait "$tracer" || true
expect "calls of setsockopt that were made to fail" "$(grep -c 'ENOMEM.*INJECTED' /tmp/calls)" '>=' 1
expect "connections that the kernel had no memory for" "$(refused memory)" = 1
same_as "$FILM" "$S/film-004.mp4"
expect "connections that the kernel sealed for, afterwards" "$(routed kernel)" = 1
stopped
