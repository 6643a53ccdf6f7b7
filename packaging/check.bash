# shellcheck shell=bash
# Tests the packages: ./run package --check. packaging/package.bash sources this file.
#
# Tests that need a machine run in a throw-away one: a root on top of this machine's own, in memory, with its own network and processes.

package_check() { # PROGRAM OUT
  local older newer folder
  folder=$2/check
  rm -rf "$folder"
  say "packing twice"
  package_pack "$1" "$1" "$folder/a" 1 quick >/dev/null
  sleep 1 # the clock goes on between two packings
  (umask 077; TMPDIR=$(mktemp -d); export TMPDIR; package_pack "$1" "$1" "$folder/b" 1 quick >/dev/null; rm -r "$TMPDIR")
  check_bytes "$folder/a" "$folder/b"
  rm -r "$folder/b"
  older=$(echo "$folder"/a/*.deb)
  mkdir "$folder/tree" "$folder/tarball"
  dpkg-deb -x "$older" "$folder/tree"
  tar -C "$folder/tarball" --strip-components=1 -xf "$folder"/a/*.tar.xz
  check_contents "$older" "$folder/tree"
  check_texts "$1" "$folder/tree"
  check_tarball "$folder/tree" "$folder/tarball"
  newer=$(check_newer "$older" "$folder")
  check_installed "$older" "$newer"
  rm -r "$folder"
  say "package: all checks passed"
}

# The named program must be the result of "./run build --dist" for the commit that is checked out here. The other one is built from scratch, in a folder with another name.
check_twice() { # PROGRAM OUT
  local folder
  [ -z "$(git status --porcelain --untracked-files=no)" ] || check_wrong "there are changes that are in no commit, so another folder has another program"
  folder=$(mktemp -d "${TMPDIR:-/var/tmp}/fullbore-twice.XXXXXX")
  git clone --quiet --shared . "$folder/elsewhere"
  cp -a web/dist "$folder/elsewhere/web/"
  say "building once more, in $folder"
  (cd "$folder/elsewhere" && CARGO_TARGET_DIR=$PWD/target cargo build --quiet --profile dist --locked --bin fullbore >&2) ||
    { rm -rf "$folder"; check_wrong "the other build failed"; }
  rm -rf "$2"
  package_pack "$1" "$1" "$2/here" 1 quick >/dev/null
  package_pack "$folder/elsewhere/target/dist/fullbore" "$folder/elsewhere/target/dist/fullbore" "$2/elsewhere" 1 quick >/dev/null
  rm -r "$folder"
  check_bytes "$2/here" "$2/elsewhere"
  rm -r "$2"
}

check_wrong() { fail "package: $*"; }

check_bytes() { # FOLDER FOLDER
  local file
  for file in "$1"/*; do cmp "$file" "$2/$(basename "$file")" || check_wrong "$(basename "$file") differs"; done
  [ "$(find "$1" -type f | wc -l)" = 2 ] || check_wrong "there are not two files"
  say "the same bytes twice: $(basename -a "$1"/* | paste -sd ' ')"
}

check_contents() { # DEB TREE
  local file
  dpkg-deb -c "$1" | awk '$2 != "root/root" || $1 ~ /^.....w|^........w/ { print; wrong = 1 } END { exit wrong }' ||
    check_wrong "others than root may write these"
  for file in usr/bin/fullbore etc/fullbore/fullbore.toml usr/lib/sysusers.d/fullbore.conf usr/lib/systemd/system/fullbore{,-node,-gateway,-ingest}.service \
    usr/share/man/man1/fullbore{,-serve,-control-serve}.1.gz usr/share/bash-completion/completions/fullbore \
    usr/share/zsh/vendor-completions/_fullbore usr/share/fish/vendor_completions.d/fullbore.fish \
    usr/share/doc/fullbore/{copyright,changelog.gz,changelog.Debian.gz,third-party-licences.gz,examples/certificate.conf,docs/serve.md}; do
    [ -s "$2/$file" ] || check_wrong "$file is not in the package"
  done
  [ "$(dpkg-deb -I "$1" conffiles)" = /etc/fullbore/fullbore.toml ] || check_wrong "the configuration is no conffile"
  (cd "$2" && md5sum --quiet -c <(dpkg-deb -I "$1" md5sums)) || check_wrong "md5sums does not fit"
  [[ "$(dpkg-deb -f "$1" Depends)" = *"libc6 (>= "* ]] || check_wrong "it does not depend on the C library"
  if grep -rl /usr/local "$2/usr/lib" "$2/etc"; then check_wrong "these name /usr/local"; fi
  say "$(dpkg-deb -f "$1" Package Version Architecture Depends Installed-Size | paste -sd ' ')"
}

# Man pages, completions and the version must be the program's.
check_texts() { # PROGRAM TREE
  local page share=$2/usr/share
  [ "$("$2/usr/bin/fullbore" --version)" = "$("$1" --version)" ] || check_wrong "the program in it says another version"
  for page in "$share"/man/man1/*.gz; do
    grep -q '^\.TH fullbore' <(gzip -dc "$page") || check_wrong "$page is no page"
    if have man && LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null | grep .; then check_wrong "man complains about $page"; fi
  done
  bash -n "$share/bash-completion/completions/fullbore"
  if have zsh; then zsh -n "$share/zsh/vendor-completions/_fullbore"; fi
  if have fish; then fish --no-execute "$share/fish/vendor_completions.d/fullbore.fish"; fi
  check_completes "$share/bash-completion/completions/fullbore" "fullbore serve --ac" --access-log
  check_completes "$share/bash-completion/completions/fullbore" "fullbore do" doctor
  grep -q '^rustls .*: Apache-2.0 OR ISC OR MIT$' <(gzip -dc "$share/doc/fullbore/third-party-licences.gz") || check_wrong "licences of others are missing"
  say "$(find "$share/man" -type f | wc -l) manual pages, completions that complete"
}

check_completes() { # FILE LINE WORD: what bash offers after LINE
  local offered
  # shellcheck disable=SC2016 # the inner shell's own variables
  offered=$(bash -euc '. "$1"; read -ra COMP_WORDS <<<"$2"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=(); _fullbore fullbore "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[*]}"' check "$1" "$2")
  [ "$offered" = "$3" ] || check_wrong "bash completes \"$2\" with \"$offered\""
}

# The tarball has the package's files, for /usr/local: other paths in the units, zsh's other folder, the configuration as an example.
check_tarball() { # TREE TARBALL
  local expected
  expected=$(cd "$1/usr" && find . -type f ! -name changelog.Debian.gz | sed 's/vendor-completions/site-functions/')
  diff <(printf '%s\n' "$expected" ./share/doc/fullbore/examples/fullbore.toml | LC_ALL=C sort) <(cd "$2" && find . -type f | LC_ALL=C sort) ||
    check_wrong "the tarball holds other files than the package"
  cmp "$1/usr/bin/fullbore" "$2/bin/fullbore"
  diff <(sed 's|/usr/bin/|/usr/local/bin/|' "$1/usr/lib/systemd/system/fullbore.service") "$2/lib/systemd/system/fullbore.service" ||
    check_wrong "the tarball's unit differs by more than its path"
  grep -q '^ExecReload=/usr/local/bin/fullbore upgrade ' "$2/lib/systemd/system/fullbore.service" || check_wrong "a reload of the tarball's unit is no upgrade"
}

# The same package as a later version, without building it again.
check_newer() { # DEB FOLDER: prints where it is
  local version
  version=$(dpkg-deb -f "$1" Version)
  dpkg-deb -R "$1" "$2/newer"
  sed -i "s/^Version: .*/Version: ${version%-*}-2/" "$2/newer/DEBIAN/control"
  dpkg-deb --root-owner-group -Zgzip -z1 --build "$2/newer" "$2/newer.deb" >/dev/null
  printf '%s' "$2/newer.deb"
}

check_installed() { # OLDER NEWER
  local scratch
  if [ "$(id -u)" != 0 ]; then say "package: installing it is SKIPPED: that takes root"; return; fi
  need "trying the package" unshare=util-linux setpriv=util-linux ip=iproute2 curl=curl systemd-sysusers=systemd
  scratch=$(mktemp -d)
  # shellcheck disable=SC2016 # the inner shell's own variables
  unshare --mount --net --pid --fork --kill-child bash -euc '
    mount -t tmpfs tmpfs "$1"
    mkdir "$1"/{upper,work,root}
    mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" || exit 77
    mount -t proc proc "$1/root/proc"
    mount --rbind /dev "$1/root/dev"
    ip link set lo up
    cp "$2" "$1/root/older.deb"; cp "$3" "$1/root/newer.deb"; cp "$4" "$1/root/try"
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 chroot "$1/root" /try /older.deb /newer.deb' \
    check "$scratch" "$1" "$2" packaging/try-installed || {
    [ $? = 77 ] || check_wrong "it does not work when it is installed"
    say "package: installing it is SKIPPED: this kernel lays no file system over /"
  }
  rmdir "$scratch"
}
