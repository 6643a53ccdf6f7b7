# shellcheck shell=bash
# The first guide (docs/install.md, "From the package"), typed word by word on a fresh Debian with its own apt and systemd, in QEMU: from nothing to
# a film over HTTPS by a certificate that a client trusts. ./run sources this file, which uses its say, fail, need, bare_root and the lab's kernels.
#
# A program stands in for the editor: it adds the three lines that docs/serve.md prints. The authority is Pebble,
# Let's Encrypt's server for tests, which runs in the guest, so two more lines give its address and its root. The guest has no network.
# Afterwards the same guest makes titles by the unit that watches a folder, and upgrades, reloads, removes and purges the package.
# shellcheck source=lab/machine.bash
. lab/machine.bash

GUIDE_NEEDS=(debootstrap=debootstrap unshare=util-linux mke2fs=e2fsprogs pebble=pebble pebble-challtestsrv=pebble openssl=openssl ffmpeg=ffmpeg)
GUIDE_DEADLINE=${GUIDE_DEADLINE:-1200} # an emulator needs minutes

# The commands of the guide, except for the one that builds the package.
guide_commands() {
  sed -n '/^## From the package$/,/^For a \[box of a fleet\]/ s/^    //p' docs/install.md | grep -vx '\./run package'
}

# The commands that upgrade, remove and purge.
guide_later() { sed -n '/^### Upgrading$/,/^## From the tarball$/ s/^    \(sudo [^#]*[^# ]\).*/\1/p' docs/install.md; }

# The three lines that get a certificate.
guide_lines() {
  sed -n '/^### Certificates by themselves$/,/^Start the server/ s/^       \([^ ].*\)$/\1/p' docs/serve.md
}

guide_root() { # ROOT SUITE DEB
  local name host=video.example.org
  bare_root "$1" "$2"
  bare_in "$1" 'export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends curl ffmpeg iproute2 kmod procps sudo systemd systemd-sysv >/dev/null
    apt-get clean; rm -rf /var/lib/apt/lists/*' >&2
  mkdir -p "$1/guide/clone/target/package" "$1/guide/pebble" "$1/usr/local/bin"
  cp "$3" "$1/guide/clone/target/package/"
  check_newer "$3" "$1/guide" >/dev/null
  rm -r "$1/guide/newer"
  mv "$1/guide/newer.deb" "$1/guide/clone/NEWER.deb"
  cp "$(command -v pebble)" "$(command -v pebble-challtestsrv)" "$1/usr/local/bin/"
  printf '127.0.0.1 localhost %s\n' "$host" >"$1/etc/hosts"
  for name in first second; do
    ffmpeg -nostdin -v error -f lavfi -i testsrc2=s=320x180:r=25:d=4 -f lavfi -i sine=d=4 -c:v libx264 -preset ultrafast -c:a aac "$1/guide/$name.mkv"
  done
  # With a configuration of its own, because the usual one makes an authority's certificate.
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -addext basicConstraints=critical,CA:FALSE -config <(printf '[req]\ndistinguished_name = name\n[name]\n') \
    -keyout "$1/guide/pebble/key.pem" -out "$1/guide/pebble/cert.pem" 2>/dev/null
  chmod 755 "$1/guide" "$1/guide/pebble" # the server's user reads the authority's root
  cat >"$1/guide/pebble/config.json" <<'JSON'
{ "pebble": { "listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "certificate": "/guide/pebble/cert.pem",
  "privateKey": "/guide/pebble/key.pem", "httpPort": 80, "tlsPort": 443, "ocspResponderURL": "", "externalAccountBindingRequired": false } }
JSON
  guide_commands >"$1/guide/guide"
  guide_later >"$1/guide/later"
  { guide_lines; printf 'directory = "https://localhost:14000/dir"\nroots = "/guide/pebble/cert.pem"\n'; } >"$1/guide/lines"
  printf '#!/bin/sh\nset -e\n{ echo; cat /guide/lines; } >>"$1"\n' >"$1/usr/local/bin/editor"
  chmod 755 "$1/usr/local/bin/editor"
  install -m 755 packaging/guide-in-guest "$1/guide/judge"
  install -m 755 packaging/ingest-in-guest "$1/guide/judge-ingest"
  install -m 755 packaging/later-in-guest "$1/guide/judge-later"
  printf '%s\n' '[Unit]' 'Description=The first guide' 'After=multi-user.target' '[Service]' 'Type=oneshot' 'ExecStart=/guide/judge' \
    'StandardOutput=file:/dev/ttyS0' 'StandardError=inherit' 'TimeoutStartSec=infinity' 'ExecStopPost=/bin/systemctl poweroff --force --force' \
    '[Install]' 'WantedBy=graphical.target' >"$1/etc/systemd/system/guide.service"
  chroot "$1" systemctl -q enable guide.service
  : >"$1/etc/fstab"
}

# The kernel and the loading of modules are the lab's; then systemd takes over.
guide_initrd() { # FILE
  local root
  root=$(mktemp -d)
  mkdir -p "$root/lab" "$root/root"
  cp lab/modules "$root/lab/"
  cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
awk '$1 == "start" { print $2 }' /lab/modules | while read -r module; do modprobe -q "$module"; done
mount -t ext4 /dev/nvme0n1 /root || echo "guide: the disk does not mount"
exec switch_root /root /lib/systemd/systemd
INIT
  chmod 755 "$root/init"
  archive "$root" "$1.top"
  cat "$(base_archive stable)" "$1.top" >"$1"
  rm -r "$root" "$1.top"
}

guide_main() { # DEB SUITE...
  local deb=$1 suite scratch root log status
  shift
  if [ "$(id -u)" != 0 ] || ! have apt-get || [ "$(uname -m)" != x86_64 ]; then skip "a guest needs root, Debian's packages and x86-64"; return; fi
  need "the guide's guest" "${GUIDE_NEEDS[@]}"
  machine_needs
  kernel_kind stable >/dev/null
  for suite in "$@"; do
    scratch=$(mktemp -d /var/tmp/fullbore-guide.XXXXXX)
    root=$scratch/root log=$scratch/console
    mkdir "$root"
    say "making a Debian ($suite) for the guide"
    guide_root "$root" "$suite" "$deb"
    mke2fs -q -t ext4 -d "$root" "$scratch/disk" "$(($(du -sm "$root" | cut -f 1) + 600))M" >/dev/null
    rm -r --one-file-system "$root"
    guide_initrd "$scratch/initrd"
    say "typing the guide in it"
    status=0
    timeout --signal=KILL "$GUIDE_DEADLINE" qemu-system-x86_64 -accel "tcg,thread=multi" -cpu "max,la57=off,cx16=off" -machine q35 -nodefaults -display none -no-reboot \
      -smp 2 -m 1536M -kernel "$(echo "$LAB_CACHE"/kernel-stable/boot/vmlinuz-*)" -initrd "$scratch/initrd" \
      -append "console=ttyS0 quiet panic=-1 mitigations=off systemd.show_status=0" -drive "id=disk,if=none,format=raw,snapshot=on,file=$scratch/disk" \
      -device nvme,drive=disk,serial=disk -serial "file:$log" </dev/null >"$log.qemu" 2>&1 || status=$?
    sed -i 's/\r//g' "$log"
    sed -n 's/^guide: | /    /p' "$log"
    if ! grep -qx 'guide: passed' "$log"; then
      tail -n 60 "$log" | sed 's/^/    > /' >&2
      cat "$log.qemu" >&2
      fail "the guide did not come to its end on $suite (QEMU's exit code $status); the console is $log"
    fi
    rm -r "$scratch"
  done
}
