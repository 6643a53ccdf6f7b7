#!/bin/bash
# shows: connections that the kernel encrypts move to the silo of their film's disk, with random requests and key changes, and their viewers get exactly their bytes
# machines: plain newest
# deadline: 200
# tests: serving
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

modprobe tls
RUST_BACKTRACE=0 tests --nocapture --test-threads 1 moves::random_requests_get_their_bytes_across_moves_when_the_kernel 2>&1 | tee /tmp/tested
say "$(grep -E ' requests, .* moves' /tmp/tested | paste -sd ';')"
grep -q 'test result: ok. 2 passed' /tmp/tested || wrong "a viewer got something else: $(grep -m 1 panicked /tmp/tested)"
if grep SKIPPED /tmp/tested; then wrong "it was not tried"; fi
