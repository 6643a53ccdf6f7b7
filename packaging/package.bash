# shellcheck shell=bash
# Packages: a .deb made with dpkg's own tools, and a tarball with the same files. ./run sources this file, which uses its say, fail, need and build.
#
# Both hold one tree (package_tree), laid out for /usr or for /usr/local. Everything in it comes from the repository or from the program
# itself, including the version, and all times are the commit's: packaging one program twice gives the same bytes. check.bash tests the packages.
# shellcheck source=packaging/check.bash
. packaging/check.bash
# shellcheck source=packaging/guide.bash
. packaging/guide.bash
# shellcheck source=packaging/image.bash
. packaging/image.bash
# shellcheck source=packaging/others.bash
. packaging/others.bash

PACKAGE_NEEDS=(dpkg-deb=dpkg dpkg-shlibdeps=dpkg-dev objcopy=binutils xz=xz-utils gzip=gzip git=git)

# Set by package_facts.
PACKAGE_VERSION=""      # as Debian orders versions, without Debian's revision
PACKAGE_TIME=""         # of the commit, in seconds since 1970
PACKAGE_COMMIT=""       # empty if the program does not know it
PACKAGE_TARGET=""       # MACHINE-LIBC

package_help() {
  cat <<'TEXT'
usage: ./run package [--all] [--image] [--program FILE] [--out DIR] [--revision N] [--quick] [--check | --guide SUITE] [--twice]

Makes fullbore_VERSION_ARCHITECTURE.deb and fullbore-VERSION-MACHINE-linux-gnu.tar.xz in DIR (target/package), and prints where they are.

  --all            then a static tarball (-linux-musl), and both files for the other machine (arm64 or amd64) by cross-building, in DIR/others;
                   some minutes for each. What cannot be made here is said; with --check each is tried
  --image          then an OCI image of the static program for this machine's architecture; with --check it is run by podman (docs/containers.md)
  --program FILE   package this program instead of the one from ./run build --dist
  --revision N     Debian's revision: the number of this package of the version (1)
  --quick          compress little
  --guide SUITE    then type docs/install.md's guide on a fresh Debian SUITE (bookworm, trixie) in QEMU, up to a film over HTTPS; as root
  --twice          then build the same commit once more, in another folder, and compare the packages: their bytes have to be the same
  --check          then test them: bytes, contents, units; and as root, installing, serving, upgrading, removing and purging
TEXT
}

package_main() {
  local program="" out=$PWD/target/package revision=1 quick="" check="" guide="" all="" image="" twice="" made
  while [ $# -gt 0 ]; do
    case $1 in
      --program) program=$(cd "$CALLED_FROM" && realpath -e "${2:?}") || exit 2; shift ;;
      --out) out=$(cd "$CALLED_FROM" && realpath -m "${2:?}"); shift ;;
      --revision) revision=${2:?}; shift ;;
      --quick) quick=yes ;;
      --all) all=yes ;;
      --image) image=yes ;;
      --twice) twice=yes ;;
      --check) check=yes ;;
      --guide) guide=${2:?}; shift ;;
      --help | -h) package_help; return ;;
      *) package_help >&2; exit 2 ;;
    esac
    shift
  done
  need packing "${PACKAGE_NEEDS[@]}"
  need_rust
  if [ -z "$program" ]; then
    [ -z "$(git status --porcelain 2>/dev/null)" ] || say "there are uncommitted changes, which the package's version does not show"
    program=$(build --dist)
  fi
  package_facts "$program"
  if [ -n "$check" ]; then
    package_check "$program" "$out"
  else
    made=$(package_pack "$program" "$program" "$out" "$revision" "$quick")
    printf '%s\n' "$made"
  fi
  if [ -n "$all" ]; then package_others "$program" "$out/others" "$revision" "$quick" "$check"; fi
  if [ -n "$image" ]; then image_main "$program" "$out" "$check"; fi
  if [ -n "$twice" ]; then check_twice "$program" "$out/twice"; fi
  if [ -n "$guide" ]; then guide_main "$(grep '\.deb$' <<<"$made")" "$guide"; fi
}

# The version and the commit come from the program itself, so the package can't differ from it. Until a version is released (tag vVERSION),
# each commit is a step towards it: the later commit is the newer package, and the release is newer than all of them.
package_facts() { # PROGRAM
  local said number
  said=$("$1" --version) || fail "$1 does not run here: build a package on a machine of its own architecture, because the program writes its manual"
  number=$(sed -n 's/^fullbore \([0-9.]*\).*/\1/p' <<<"$said")
  PACKAGE_COMMIT=$(sed -n 's/.*(commit \([0-9a-f]*\))$/\1/p' <<<"$said")
  [ -n "$number" ] || fail "$1 prints no version, but: $said"
  PACKAGE_TARGET=$(uname -m)-gnu
  PACKAGE_VERSION=$number
  PACKAGE_TIME=${SOURCE_DATE_EPOCH:-$([ -z "$PACKAGE_COMMIT" ] || git show -s --format=%ct "$PACKAGE_COMMIT" 2>/dev/null || true)}
  [ -n "$PACKAGE_TIME" ] || fail "$said: its commit is not known here; set SOURCE_DATE_EPOCH to the files' time, in seconds since 1970"
  if [ -n "$PACKAGE_COMMIT" ] && ! git describe --exact-match --match "v$number" "$PACKAGE_COMMIT" >/dev/null 2>&1; then
    PACKAGE_VERSION+=~git$(date -u -d "@$PACKAGE_TIME" +%Y%m%d.%H%M%S).$PACKAGE_COMMIT
  fi
}

# VOICE is a program of the same commit that runs here: it writes the manual and the completions.
package_pack() { # PROGRAM VOICE OUT REVISION QUICK: prints where the files are
  local scratch shell tools="" machine=${PACKAGE_TARGET%-*}
  umask 022
  scratch=$(mktemp -d)
  mkdir -p "$3" "$scratch/completions"
  [ "$machine" = "$(uname -m)" ] || tools=$machine-linux-gnu-
  # Function names stay, for crash messages. The linker's build id is a digest of the program with its debug information, which names the
  # folder of the build.
  package_names "${tools}nm" "$1" >"$scratch/names"
  "${tools}objcopy" --strip-debug --redefine-syms="$scratch/names" --remove-section=.note.gnu.build-id "$1" "$scratch/program"
  "$2" man "$scratch/man"
  for shell in bash fish zsh; do "$2" completions "$shell" >"$scratch/completions/$shell"; done
  package_licences >"$scratch/licences"
  case $PACKAGE_TARGET in *-gnu) package_deb "$scratch" "$3" "$4" "$5" ;; esac
  package_tarball "$scratch" "$3" "$5"
  rm -r "$scratch"
}

# Where LLVM moves code from one crate to another, it ends names with a digest of the crate (NAME.llvm.DIGEST), which depends on the folder of the
# build by the debug information. A number in its place, by address, doesn't.
package_names() { # NM PROGRAM: prints each such name and its new one
  "$1" "$2" | awk '$3 ~ /\.llvm\.[0-9]+$/ { name = $3; sub(/\.llvm\..*/, "", name); print $1, name, $3 }' |
    LC_ALL=C sort | awk '{ print $3, $2 ".llvm." NR }'
}

# --- the tree ------------------------------------------------------------------------------------------------------------------

package_tree() { # SCRATCH PREFIX TREE: makes TREE, to be laid below PREFIX
  local page shell unit doc=$3/share/doc/fullbore zsh=vendor-completions
  [ "$2" = /usr ] || zsh=site-functions
  install -D "$1/program" "$3/bin/fullbore"
  install -D -m 644 packaging/deb/sysusers.conf "$3/lib/sysusers.d/fullbore.conf"
  mkdir -p "$3/lib/systemd/system" "$3/share/man/man1"
  for unit in fullbore fullbore-node fullbore-gateway fullbore-ingest; do
    package_unit "packaging/$unit.service" "$2" >"$3/lib/systemd/system/$unit.service"
  done
  for page in "$1"/man/*; do gzip -9n <"$page" >"$3/share/man/man1/$(basename "$page").gz"; done
  for shell in bash-completion/completions/fullbore fish/vendor_completions.d/fullbore.fish "zsh/$zsh/_fullbore"; do
    mkdir -p "$3/share/${shell%/*}"
    install -m 644 "$1/completions/$(sed 's/[-/].*//' <<<"$shell")" "$3/share/$shell"
  done
  mkdir -p "$doc/examples/monitoring" "$doc/docs"
  install -m 644 packaging/deb/copyright "$doc/"
  install -m 644 docs/*.md "$doc/docs/"
  install -m 644 packaging/monitoring/* "$doc/examples/monitoring/"
  package_unit packaging/certificate.conf "$2" >"$doc/examples/certificate.conf"
  gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
  gzip -9n <"$1/licences" >"$doc/third-party-licences.gz"
}

# The units are for a program that a person put into /usr/local/bin. Installed, the server has a configuration file and a user of its own.
# That user is the node's, too: systemd would give a dynamic user of this name the same rights, but keep its state elsewhere.
package_unit() { # FILE PREFIX
  local unit
  unit=$(sed -e "s|/usr/local/bin/fullbore|$2/bin/fullbore|" \
    -e 's|fullbore serve /srv/video --listen \[::\]:443|fullbore serve --config /etc/fullbore/fullbore.toml|' \
    -e 's|^# For a library on several disks.*|# The configuration says what is served, and on which address.|' "$1")
  case $1 in
    */fullbore.service)
      unit=$(sed -e 's|^DynamicUser=yes$|User=fullbore|' -e 's|^# A user that exists only while the service runs,|# A user of its own,|' <<<"$unit")
      grep -q '^User=fullbore$' <<<"$unit" || fail "$1: DynamicUser=yes is not in it, which the package replaces"
      ;;
  esac
  grep -q "^ExecStart=$2/bin/fullbore " <<<"$unit" || fail "$1: it does not start /usr/local/bin/fullbore, which the package replaces"
  case $1 in
    */fullbore.service | */certificate.conf)
      grep -q '^ExecStart=.* serve --config /etc/fullbore/fullbore.toml ' <<<"$unit" || fail "$1: its command is not the one that the package replaces"
      grep -q "^ExecReload=$2/bin/fullbore upgrade " <<<"$unit" || fail "$1: its reload isn't an upgrade"
      ;;
  esac
  printf '%s\n' "$unit"
}

# Third-party code in the program: names, versions and licences, and each licence's text once.
package_licences() {
  local crates file sum registry=${CARGO_HOME:-$HOME/.cargo}/registry/src files=() name
  local -A users=() text=()
  crates=$(cargo tree --locked -p fullbore -e normal,no-proc-macro --prefix none -f '{p}|{l}' | sed 's/ (\*)//' | grep -v ' (/' | sort -u)
  printf 'Fullbore contains these crates, under these licences. The texts follow, each with those that came with it.\n\n'
  sed 's/ v/ /; s/|/: /' <<<"$crates"
  while read -r name; do
    files+=("$registry"/*/"$name"/{LICENSE,LICENCE,COPYING,NOTICE,COPYRIGHT}*)
  done < <(sed 's/ v\([^ |]*\).*/-\1/' <<<"$crates")
  for name in hls.js dashjs uplot; do files+=(web/node_modules/"$name"/LICENSE*); done
  while read -r sum file; do
    name=${file%/*}
    users[$sum]+=" ${name##*/}"
    text[$sum]=$file
  done < <(for file in "${files[@]}"; do if [ -f "$file" ]; then sha256sum "$file"; fi; done)
  for sum in $(printf '%s\n' "${!text[@]}" | sort); do
    printf '\n%s\nOf%s:\n\n' "$(printf '=%.0s' {1..80})" "${users[$sum]}"
    cat "${text[$sum]}"
  done
}

# --- the packages --------------------------------------------------------------------------------------------------------------

package_deb() { # SCRATCH OUT REVISION QUICK
  local root=$1/deb file compression=(-Zxz)
  file=$2/fullbore_$PACKAGE_VERSION-${3}_$(package_architecture "${PACKAGE_TARGET%-*}").deb
  [ -z "$4" ] || compression=(-Zgzip -z1)
  mkdir -p "$root/DEBIAN"
  package_tree "$1" /usr "$root/usr"
  install -D -m 644 packaging/fullbore.toml "$root/etc/fullbore/fullbore.toml"
  package_debian_changelog "$3" | gzip -9n >"$root/usr/share/doc/fullbore/changelog.Debian.gz"
  install packaging/deb/{postinst,prerm,postrm} "$root/DEBIAN/"
  echo /etc/fullbore/fullbore.toml >"$root/DEBIAN/conffiles"
  (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  package_control "$1" "$3" >"$root/DEBIAN/control"
  find "$root" -exec touch -h -d "@$PACKAGE_TIME" {} +
  SOURCE_DATE_EPOCH=$PACKAGE_TIME dpkg-deb --root-owner-group "${compression[@]}" --build "$root" "$file" >/dev/null
  printf '%s\n' "$file"
}

package_maintainer() { printf 'The Fullbore maintainers <%s>' "${DEBEMAIL:-root@localhost}"; }

package_debian_changelog() { # REVISION
  printf 'fullbore (%s-%s) unstable; urgency=medium\n\n  * Made by ./run package. changelog.gz says what changed.\n\n' "$PACKAGE_VERSION" "$1"
  printf ' -- %s  %s\n' "$(package_maintainer)" "$(date -u -R -d "@$PACKAGE_TIME")"
}

# Debian's tools know which versions of its libraries have the symbols that the program uses. For another machine they check the libraries that
# it was built with, and then print "libc6:arm64" for that machine's libc6.
package_libraries() { # PROGRAM
  local folder machine=${PACKAGE_TARGET%-*} architecture
  architecture=$(package_architecture "$machine")
  folder=$(mktemp -d) || return 1
  mkdir "$folder/debian" || return 1
  printf 'Source: fullbore\n\nPackage: fullbore\nArchitecture: any\n' >"$folder/debian/control"
  (cd "$folder" && DEB_HOST_ARCH=$architecture dpkg-shlibdeps "-l/usr/$machine-linux-gnu/lib" -O "$1" 2>"$folder/said") |
    sed -n "s/:$architecture\\b//g; s/^shlibs:Depends=//p" | grep . || { cat "$folder/said" >&2; return 1; }
  rm -r "$folder"
}

package_control() { # SCRATCH REVISION
  local libraries
  libraries=$(package_libraries "$1/program") || fail "dpkg-shlibdeps does not say which libraries the program needs"
  cat <<TEXT
Package: fullbore
Version: $PACKAGE_VERSION-$2
Architecture: $(package_architecture "${PACKAGE_TARGET%-*}")
Maintainer: $(package_maintainer)
Installed-Size: $(find "$1/deb/usr" "$1/deb/etc" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
Depends: $libraries, systemd | systemd-standalone-sysusers | systemd-sysusers
Suggests: ffmpeg
Section: video
Priority: optional
Description: video server: a library over HTTPS at the speed of the machine
 Fullbore serves films on the disks of your machines to browsers and players
 (HLS, DASH, plain MP4), with one thread per core over io_uring. It makes
 titles of video files (with ffmpeg), has a shelf, a player and a dashboard,
 and runs on one machine or as a fleet of nodes and gateways.
 .
 Linux 6.1 or later is needed. No service is started before you say what to
 serve: see /etc/fullbore/fullbore.toml.
TEXT
}

package_tarball() { # SCRATCH OUT QUICK
  local name top level=-6
  name=fullbore-$PACKAGE_VERSION-${PACKAGE_TARGET/-/-linux-}
  top=$1/tarball/$name
  [ -z "$3" ] || level=-0
  package_tree "$1" /usr/local "$top"
  install -m 644 packaging/fullbore.toml "$top/share/doc/fullbore/examples/"
  tar -C "$1/tarball" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$PACKAGE_TIME" -cf "$1/tar" "$name"
  xz -T1 "$level" <"$1/tar" >"$2/$name.tar.xz"
  printf '%s\n' "$2/$name.tar.xz"
}
