#!/bin/bash
# shows: frames go both ways between network cards that read and write the server's memory directly (AF_XDP, zero copy)
# machines: wire
# tests: frames/frames
# deadline: 200
# deadline long: 400
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

# The second one sees that the kernel says "zero copy": neither it nor the card's driver copies. We do, once, into the shared memory.
TESTS=(xdp::frames_go xdp::everything survivors::a_killed_process_leaves_no_program)
if [ "$LAB_LONG" = 1 ]; then TESTS+=(worker::a_card worker::a_queue); fi

card() { basename "$(dirname "$(grep -l "52:54:00:00:01:0$1" /sys/class/net/*/address)")"; }
ip link set "$(card 1)" name near
ip link set "$(card 2)" name far
FULLBORE_TEST_CARDS=1 /bin/tests --test-threads 1 --show-output "${TESTS[@]}" 2>&1 | tee /tmp/tests.log || true
grep -q '^test result: ok' /tmp/tests.log || wrong "$(grep -m 3 -E 'panicked|FAILED' /tmp/tests.log | paste -sd ' ')"
for name in "${TESTS[@]}"; do grep -q "^test $name.* ok" /tmp/tests.log || wrong "there is no test $name"; done
say "$(uname -r): $(grep '^test result' /tmp/tests.log)"
