#!/bin/bash
# shows: frames go both ways by TAP and by AF_XDP on this kernel, next hops follow it, and a process that is killed leaves nothing behind
# machines: plain newest
# tests: net/frames
# deadline: 400
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

modprobe tun # nothing asks for it by itself: its device appears with it
/bin/tests --test-threads 1 --show-output 2>&1 | tee /tmp/tests.log || true
grep -q '^test result: ok' /tmp/tests.log || wrong "$(grep -m 3 -E 'panicked|FAILED' /tmp/tests.log | paste -sd ' ')"
if grep -q SKIPPED /tmp/tests.log; then wrong "a test was skipped: $(grep -m 1 SKIPPED /tmp/tests.log)"; fi
say "$(uname -r): $(grep '^test result' /tmp/tests.log)"
