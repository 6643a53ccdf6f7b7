#!/bin/bash
# shows: the lab notices kernel complaints: this scenario does nothing wrong, but the lab fails it because a warning is planted meanwhile
# machines: plain
# fails: the kernel complained: *WARNING: planted
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

echo '<4>WARNING: planted' >/dev/kmsg
say "planted a warning in the kernel's log"
