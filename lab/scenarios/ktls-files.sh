#!/bin/bash
# shows: a film is overwritten, truncated, replaced or removed while the kernel sends it: no viewer gets a byte of another version, and viewers of other films are not affected
# machines: plain newest
# shellcheck source=lab/guest/lab.bash
. /lab/guest/lab.bash

S=https://127.0.0.1:8443
LIBRARY=/tmp/films # a writable library; serve reads this variable
mkdir "$LIBRARY"
mount -t tmpfs tmpfs "$LIBRARY"
for number in 3 4 5 6 7; do cp "/library/film-00$number.mp4" "$LIBRARY/"; done
modprobe tls
serve --route kernel --disk cached --listen 127.0.0.1:8443

begin film-007 "$S/film-007.mp4" # this one stays unchanged
witness=$VIEWER

# Overwritten in place: the writer waits until the viewers are disconnected.
begin film-003 "$S/film-003.mp4"
cat /library/film-010.mp4 >"$LIBRARY/film-003.mp4"
cut_off film-003 file_recalled
same_as /library/film-010.mp4 "$S/film-003.mp4"

# Truncated: the same, since that takes opening it for writing or truncate(2), and both break the lease.
before=$(ended file_recalled)
begin film-004 "$S/film-004.mp4"
perl -e 'truncate($ARGV[0], 1000000) or die "truncate: $!\n"' "$LIBRARY/film-004.mp4" # busybox opens it without waiting, and gets EAGAIN
eventually 60 has_ended file_recalled $((before + 1))
cut_off film-004 file_recalled
head -c 1000000 /library/film-004.mp4 >/tmp/short
same_as /tmp/short "$S/film-004.mp4"

# Replaced by renaming another file over it, or removed: no program waits, and the viewer is disconnected at the next window.
begin film-005 "$S/film-005.mp4"
cp /library/film-011.mp4 "$LIBRARY/.new"; mv "$LIBRARY/.new" "$LIBRARY/film-005.mp4"
cut_off film-005 file_removed
same_as /library/film-011.mp4 "$S/film-005.mp4"
before=$(ended file_removed)
begin film-006 "$S/film-006.mp4"
rm "$LIBRARY/film-006.mp4"
eventually 60 has_ended file_removed $((before + 1))
cut_off film-006 file_removed
expect "status of a film that was removed" "$(curl -sk -o /dev/null -w '%{http_code}' "$S/film-006.mp4")" is 404

# Another program has it open for writing: there is no lease, so no sendfile. The film is read into buffers and counted, and a write is
# noticed.
cp /library/film-012.mp4 "$LIBRARY/"
exec 7<>"$LIBRARY/film-012.mp4"
same_as /library/film-012.mp4 "$S/film-012.mp4"
expect "windows that were not held" "$(metric windows_not_held_total)" '>' 0
begin film-012 "$S/film-012.mp4"
cat /library/film-013.mp4 >&7
cut_off film-012 file_changed
exec 7>&-
say "open for writing elsewhere: $(metric windows_not_held_total) windows read into buffers"

go_on film-007 "$witness" || wrong "the viewer of a film that was not changed was cut off"
cmp /tmp/got-film-007 /library/film-007.mp4 || wrong "the viewer of a film that was not changed got other bytes"
expect "faults" "$(metric tasks_panicked_total)" = 0
stopped
expect "sockets that the kernel still seals for" "$(tls_stat TlsCurrTxSw)" = 0
