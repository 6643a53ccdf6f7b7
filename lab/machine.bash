# shellcheck shell=bash
# The lab's machines: a kernel (kernels.bash), an initramfs of this host's own programs, a disk with a library, and QEMU's command line.
# Read by lab.bash.
#
# The initramfs is two archives, one after the other, which the kernel allows. The first has the host's programs and the kernel's modules,
# and is kept. The second has the changing files (fullbore, lab/guest, the scenarios), and is made for each boot.
# Machines cannot reach the network: their cards use QEMU's user networking with restrict=on.

# shellcheck source=lab/kernels.bash
. lab/kernels.bash

LAB_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fullbore/lab
LAB_NEEDS=(qemu-system-x86_64=qemu-system-x86 busybox=busybox-static cpio=cpio depmod=kmod mke2fs=e2fsprogs xz=xz-utils strip=binutils make=make cc=build-essential
  curl=curl openssl=openssl strace=strace ip=iproute2 ethtool=ethtool perl=perl-base cmp=diffutils dmsetup=dmsetup
  nft=nftables flock=util-linux)
# Programs of guests besides busybox. With perl-base, scenarios can do things that no client can.
LAB_PROGRAMS=(bash curl openssl strace ip tc ss nstat ethtool nft nginx perl cmp dmsetup)

machine_needs() {
  need "the lab" "${LAB_NEEDS[@]}"
  need_nginx
  [ "$(uname -m)" = x86_64 ] || fail "the lab's machines are x86-64, with programs of this host, which is not"
  file_is_static "$(command -v busybox)" || apt_install "the lab (a busybox without libraries)" busybox-static
}

file_is_static() { ! ldd "$1" >/dev/null 2>&1; }

machine_setting() { # MACHINE KEY
  awk -v key="$2" '$1 == key { print $2 }' "lab/machines/$1"
}

# --- initramfs -----------------------------------------------------------------------------------------------------------------

libraries_of() { # PROGRAM: the files that ld.so would load, including itself
  ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true
}

program_files() { # the programs of the guest and all their libraries, as paths
  local name path
  for name in "${LAB_PROGRAMS[@]}"; do
    path=$(command -v "$name") || fail "the lab needs $name on PATH"
    printf '%s\n' "$path"
    libraries_of "$path"
  done | sort -u
}

perl_folder() { perl -e 'print grep { m{/perl-base$} } @INC'; }

# Identifies the contents of a base archive, so that another host program, kernel or list makes another archive.
base_key() { # KIND
  { kernel_release "$1"; program_files | xargs stat -L -c '%n %s %Y'; cat lab/modules lab/machine.bash lab/kernels.bash lab/card/* lab/programs/*; } | sha256sum | cut -c 1-16
}

base_files() { # ROOT: the host's programs at their own paths, and links to them in bin
  local path
  mkdir -p "$1"/{bin,dev,proc,sys,tmp,etc,root,run,library,sbin,usr/bin,usr/sbin,var/log/nginx,var/lib/nginx}
  program_files | while read -r path; do install -D "$path" "$1$path"; done
  for path in "${LAB_PROGRAMS[@]}"; do ln -sf "$(command -v "$path")" "$1/bin/$path"; done
  install "$(command -v busybox)" "$1/bin/busybox"
  for path in lab/programs/*.c; do cc -O2 -static -o "$1/bin/$(basename "$path" .c)" "$path"; done
  ln -s /bin/busybox "$1/sbin/modprobe" # where the kernel looks for it
  cp -r --parents "$(perl_folder)" "$1"
  printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$1/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$1/etc/group"
  printf '127.0.0.1 localhost\n' >"$1/etc/hosts"
}

archive() { # ROOT FILE
  (cd "$1" && find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0) >"$2.part"
  mv "$2.part" "$2"
}

base_archive() { # KIND: prints its path
  local file root
  file=$LAB_CACHE/base-$1-$(base_key "$1").cpio
  if [ ! -f "$file" ]; then
    rm -f "$LAB_CACHE/base-$1-"*.cpio
    root=$(mktemp -d)
    base_files "$root"
    kernel_modules "$1" "$root"
    archive "$root" "$file"
    rm -r "$root"
  fi
  printf '%s' "$file"
}

# A scenario can run one of the server's own test programs, by a header line "# tests: NAME" (of the crate server) or
# "# tests: CRATE/NAME": in the guest it is /bin/tests.
test_program() { # SCENARIO: prints its path, if the scenario wants one
  local name crate=server
  name=$(sed -n 's/^# tests: *//p' "lab/scenarios/$1.sh" 2>/dev/null) || true
  [ -n "$name" ] || return 0
  [ "$name" = "${name%/*}" ] || crate=${name%/*}
  # For the whole workspace, as ./run test builds it: for one crate alone cargo would make another build, with fewer features.
  cargo test -q --workspace --test "${name#*/}" --no-run --message-format=json |
    sed -n "s|.*\"path+file:[^\"]*/crates/[a-z]*/$crate#.*\"executable\":\"\([^\"]*\)\".*|\1|p"
}

# Copies the host's systemd, for a scenario with a header line "# with: systemd". Of its units only targets are copied, because other units
# of a real machine are not under test.
systemd_files() { # ROOT
  local path
  need "the lab's service manager" systemctl=systemd
  chmod 755 "$1" # not everything under test runs as root
  mkdir -p "$1"/{etc/systemd/system,usr/lib/systemd/system,home,srv,var/lib,var/log,var/tmp}
  for path in /usr/lib/systemd/systemd{,-executor} "$(command -v systemctl)"; do
    if [ -x "$path" ]; then install -D "$path" "$1$path"; libraries_of "$path"; fi
  done | cat - <(systemd_plugins) | sort -u | while read -r path; do install -D "$path" "$1$path"; done
  cp -P /lib/systemd/system/*.target "$1/usr/lib/systemd/system/"
  cp lab/guest/lab.service "$1/etc/systemd/system/"
  printf '%032d\n' 1 >"$1/etc/machine-id"
}

# Libraries that newer systemds load on demand, if this host has them, and their dependencies.
systemd_plugins() {
  local path
  ldconfig -p | sed -n 's/^.*lib\(seccomp\|mount\|kmod\|acl\|blkid\|crypt\|pam\|apparmor\|audit\|selinux\)\.so\.[0-9]* .*x86-64.* => //p' | while read -r path; do
    printf '%s\n' "$path"
    libraries_of "$path"
  done
}

top_archive() { # FILE TESTS SCENARIO
  local root
  root=$(mktemp -d)
  mkdir -p "$root"/{lab/docs,bin}
  cp -r lab/guest lab/scenarios lab/modules packaging "$root/lab/"
  cp docs/ports.md "$root/lab/docs/" # a scenario runs its commands
  if grep -qs '^# with: systemd$' "lab/scenarios/$3.sh"; then systemd_files "$root"; fi
  install lab/guest/init "$root/init"
  strip -o "$root/bin/fullbore" "$LAB_FULLBORE"
  libraries_of "$LAB_FULLBORE" | while read -r path; do install -D "$path" "$root$path"; done
  [ -z "$2" ] || strip -o "$root/bin/tests" "$2"
  archive "$root" "$1"
  rm -r "$root"
}

# --- disk ----------------------------------------------------------------------------------------------------------------------

# Films of 4 MiB that do not compress and differ everywhere, so that a byte from a wrong place is noticed; an empty film; and one
# above 4 GiB that is a hole except for its end. Machines write to a copy that is discarded.
library_image() { # MIB: prints its path
  local file=$LAB_CACHE/library-$1.ext4 root number
  if [ ! -f "$file" ]; then
    say "making a library of $1 MiB for the lab, once"
    mkdir -p "$LAB_CACHE"
    root=$(mktemp -d -p "$LAB_CACHE")
    for number in $(seq -w 0 999 | head -n $(($1 / 4))); do
      head -c 4M /dev/zero | openssl enc -aes-128-ctr -K "$(printf '%032d' "$((10#$number))")" -iv 00000000000000000000000000000000 \
        >"$root/film-$number.mp4"
    done
    : >"$root/empty.mp4"
    truncate -s 4500M "$root/hole.mp4"
    head -c 1M "$root/film-000.mp4" >>"$root/hole.mp4"
    rm -f "$file.part"
    mke2fs -q -t ext4 -m 0 -O ^has_journal -E root_owner=0:0 -d "$root" "$file.part" "$(($1 + 64))M" >/dev/null
    rm -r "$root"
    mv "$file.part" "$file"
  fi
  printf '%s' "$file"
}

# The host's ffmpeg, its libraries in one folder, and a film of a few seconds like that of the sample library: HLS with one file per
# rendition. They are too large for an initramfs, which is in memory.
player_image() { # prints its path
  local file root path
  file=$LAB_CACHE/player-$({ libraries_of "$(command -v ffmpeg)" | xargs stat -L -c '%n %s %Y'; declare -f player_image; } | sha256sum | cut -c 1-16).ext4
  if [ ! -f "$file" ]; then
    say "making a disk with ffmpeg for the lab, once"
    rm -f "$LAB_CACHE"/player-*.ext4
    root=$(mktemp -d -p "$LAB_CACHE")
    mkdir -p "$root"/{bin,lib,film}
    cp -L "$(command -v ffmpeg)" "$root/bin/"
    libraries_of "$(command -v ffmpeg)" | while read -r path; do cp -L "$path" "$root/lib/"; done
    (cd "$root/film" && ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=320x180:rate=30:duration=8 \
      -f lavfi -i sine=frequency=440:sample_rate=48000:duration=8 -c:v libx264 -preset veryfast -g 60 -keyint_min 60 -sc_threshold 0 -b:v 600k \
      -pix_fmt yuv420p -c:a aac -b:a 96k -f dash -single_file 1 -single_file_name 'part-$RepresentationID$.mp4' -hls_playlist 1 -seg_duration 2 film.mpd)
    mke2fs -q -t ext4 -m 0 -O ^has_journal -E root_owner=0:0 -d "$root" "$file.part" "$(($(du -sm "$root" | cut -f 1) * 5 / 4 + 32))M" >/dev/null
    rm -r "$root"
    mv "$file.part" "$file"
  fi
  printf '%s' "$file"
}

# --- QEMU ----------------------------------------------------------------------------------------------------------------------

# Only one process at a time makes files that the lab keeps, and the others use them: other lanes, and other runs of the lab. Cargo has a lock of its own.
machine_files() { # MACHINE SCENARIO INITRD: sets MACHINE_KERNEL, MACHINE_INITRD, MACHINE_DISK and, for a scenario with a player, MACHINE_PLAYER
  local kind top=$3.top tests lock
  tests=$(test_program "$2")
  mkdir -p "$LAB_CACHE"
  exec {lock}>"$LAB_CACHE/lock"
  flock "$lock"
  kind=$(kernel_kind "$(machine_setting "$1" kernel)")
  MACHINE_KERNEL=$(echo "$LAB_CACHE/kernel-$kind"/boot/vmlinuz-*)
  MACHINE_DISK=$(library_image "$(machine_setting "$1" library_mib)")
  MACHINE_PLAYER=""
  if grep -qs '^# with: player$' "lab/scenarios/$2.sh"; then
    need "the lab's player" ffmpeg=ffmpeg
    MACHINE_PLAYER=$(player_image)
  fi
  MACHINE_INITRD=$3
  top_archive "$top" "$tests" "$2"
  cat "$(base_archive "$kind")" "$top" >"$MACHINE_INITRD"
  rm "$top"
  exec {lock}>&-
}

# A disk and a network card, each behind a root port of its own, on the host bridge BUS.
machine_devices() { # INDEX BUS
  MACHINE_COMMAND+=(
    -device "pcie-root-port,id=disk$1-port,bus=$2,chassis=$((2 * $1 + 1)),slot=$((2 * $1 + 1))"
    -drive "id=disk$1,if=none,format=raw,snapshot=on,file=$MACHINE_DISK"
    -device "nvme,drive=disk$1,serial=disk$1,bus=disk$1-port"
    -device "pcie-root-port,id=net$1-port,bus=$2,chassis=$((2 * $1 + 2)),slot=$((2 * $1 + 2))"
    -netdev "user,id=net$1,restrict=on"
    -device "virtio-net-pci,netdev=net$1,bus=net$1-port,romfile=")
}

# Two more network cards on a private wire, known by the last two bytes of their addresses. With iommu_platform their
# driver maps memory as for hardware; without it, the driver does not let cards access a program's memory.
machine_wire() {
  local number
  for number in 1 2; do
    MACHINE_COMMAND+=(
      -netdev "hubport,id=wire$number,hubid=1"
      -device "virtio-net-pci,netdev=wire$number,mac=52:54:00:00:01:0$number,romfile=,disable-legacy=on,iommu_platform=on")
  done
}

machine_nodes() { # NODES CPUS MEMORY_MIB: each with its memory, CPUs and host bridge
  local node last=$(($2 / $1))
  for ((node = 0; node < $1; node++)); do
    MACHINE_COMMAND+=(
      -object "memory-backend-ram,id=memory$node,size=$(($3 / $1))M"
      -numa "node,nodeid=$node,memdev=memory$node,cpus=$((node * last))-$((node * last + last - 1))"
      -device "pxb-pcie,id=bridge$node,bus=pcie.0,bus_nr=$((32 * (node + 1))),numa_node=$node")
    machine_devices "$node" "bridge$node"
  done
}

# Without cx16 the kernel doesn't use cmpxchg16b. QEMU 7.2 leaves a part of an address in the flags after it; where that is the trap flag, Linux 6.12
# warns of a debug exception (exc_debug_kernel), and it panics where the emulator reads another wrong flag.
machine_command() { # MACHINE WORDS: sets MACHINE_COMMAND; WORDS go to the guest's init
  local nodes cpus memory
  nodes=$(machine_setting "$1" nodes) cpus=$(machine_setting "$1" cpus) memory=$(machine_setting "$1" memory_mib)
  MACHINE_COMMAND=(nice -n 5 qemu-system-x86_64 -accel "tcg,thread=multi" -cpu "max,la57=off,cx16=off" -machine q35 -nodefaults -display none
    -no-reboot -smp "$cpus,sockets=$nodes" -m "${memory}M" -kernel "$MACHINE_KERNEL" -initrd "$MACHINE_INITRD"
    -append "console=ttyS0 quiet panic=-1 mitigations=off cryptomgr.notests delayacct rdinit=/init lab.machine=$1 $2")
  if [ -n "$MACHINE_PLAYER" ]; then
    MACHINE_COMMAND+=(-drive "id=player,if=none,format=raw,readonly=on,file=$MACHINE_PLAYER" -device virtio-blk-pci,drive=player)
  fi
  if [ "$nodes" = 1 ]; then machine_devices 0 pcie.0; else machine_nodes "$nodes" "$cpus" "$memory"; fi
  if [ "$(machine_setting "$1" wire)" = yes ]; then machine_wire; fi
}
