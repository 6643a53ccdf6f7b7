#!/bin/bash
# shows: frames go both ways by TAP and by AF_XDP on this kernel, and a process that is killed leaves nothing behind
# machines: plain newest
# tests: frames/frames
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

# Tests of what may differ between kernels; --long runs all of them.
KERNELS_OWN=(tap::super_segments tap::the_kernel_forwards xdp::frames_go xdp::jumbo survivors worker::a_queue worker::opening worker::the_privileges)
if [ "$LAB_LONG" = 1 ]; then KERNELS_OWN=(); fi

modprobe tun # nothing loads it automatically: its device appears with it
/bin/tests --test-threads 1 --show-output "${KERNELS_OWN[@]}" 2>&1 | tee /tmp/tests.log || true
grep -q '^test result: ok' /tmp/tests.log || wrong "$(grep -m 3 -E 'panicked|FAILED' /tmp/tests.log | paste -sd ' ')"
if grep -q SKIPPED /tmp/tests.log; then wrong "a test was skipped: $(grep -m 1 SKIPPED /tmp/tests.log)"; fi
for name in "${KERNELS_OWN[@]}"; do grep -q "^test $name.* ok" /tmp/tests.log || wrong "there is no test $name"; done
say "$(uname -r): $(grep '^test result' /tmp/tests.log)"
