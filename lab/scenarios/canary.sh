#!/bin/bash
# shows: the lab sees kernel complaints: it fails a scenario that does nothing wrong but during which a warning is planted
# machines: plain
# fails: the kernel complained: *WARNING: planted
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

echo '<4>WARNING: planted' >/dev/kmsg
say "planted a warning in the kernel's log"
