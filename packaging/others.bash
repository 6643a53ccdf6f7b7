# shellcheck shell=bash
# Packages for machines other than this one: ./run package --all. packaging/package.bash sources this file.
#
# A target is MACHINE-LIBC. For gnu, the program needs a C library, and there is a .deb and a tarball; for musl it is static, and there is a tarball.
# rustup's parts are fetched only here, after saying so. If they can't be fetched, the rest is built, and the last lines say what is missing.

# Debian's name for a machine's architecture.
package_architecture() { # MACHINE
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) dpkg --print-architecture ;;
  esac
}

# The other of the two machines that there are packages for, and a static program for this one.
other_targets() {
  local other
  case $(uname -m) in
    x86_64) other=aarch64 ;;
    aarch64) other=x86_64 ;;
    *) return ;;
  esac
  printf '%s\n' "$(uname -m)-musl" "$other-gnu"
}

package_others() { # VOICE OUT REVISION QUICK CHECK: prints where the files are
  local target program status made missing=()
  for target in $(other_targets); do
    status=0
    program=$(other_build "$target") || status=$?
    [ "$status" = 0 ] || [ "$status" = 77 ] || fail "the program for $target cannot be built"
    if [ "$status" = 77 ]; then missing+=("$target"); continue; fi
    PACKAGE_TARGET=$target
    made=$(package_pack "$program" "$1" "$2" "$3" "$4")
    printf '%s\n' "$made"
    [ -z "$5" ] || other_try "$program" "$1"
  done
  PACKAGE_TARGET=$(uname -m)-gnu
  [ "${#missing[@]}" = 0 ] || say "NOT MADE (the reasons are above): ${missing[*]}"
}

# Prints the program's path. If a part is unavailable, a line says so, and the exit code is 77.
other_build() { # TARGET
  local rust=${1%-*}-unknown-linux-${1#*-} name
  name=${rust//-/_}
  other_compiler "$1" >&2 || return 77
  other_rust "$rust" >&2 || return 77
  say "building for $rust"
  case $1 in
    *-gnu) export "CC_$name=${1%-*}-linux-gnu-gcc" "CARGO_TARGET_${name^^}_LINKER=${1%-*}-linux-gnu-gcc" ;;
    # Only for the C code: as a linker it sets an interpreter, and Rust's static program then crashes at its first instruction.
    *) export "CC_$name=musl-gcc" ;;
  esac
  cargo build --quiet --profile dist --locked --bin fullbore --target "$rust" >&2 || return 1
  realpath "${CARGO_TARGET_DIR:-target}/$rust/dist/fullbore"
}

other_compiler() { # TARGET
  local machine=${1%-*}
  (case $1 in
    *-musl) need "a static program" musl-gcc=musl-tools ;;
    *)
      need "building for $machine" "$machine-linux-gnu-gcc=gcc-${machine/_/-}-linux-gnu"
      # Headers of the C library: libc6-dev-arm64-cross.
      [ -e "/usr/$machine-linux-gnu/include/stdio.h" ] || apt_install "building for $machine" "libc6-dev-$(package_architecture "$machine")-cross"
      ;;
  esac) || { say "$1 is not made: there is no compiler for its C code"; return 1; }
}

other_rust() { # TARGET OF RUST
  [ ! -d "$(rustc --print target-libdir --target "$1")" ] || return 0
  if ! have rustup; then say "$1 is not made: Debian's Rust has no library for it, and rustup is not here"; return 1; fi
  say "fetching with rustup: Rust's library for $1"
  rustup target add "$1" && [ -d "$(rustc --print target-libdir --target "$1")" ] && return
  say "$1 is not made: rustup cannot fetch Rust's library for it"
  return 1
}

# --- tests ---------------------------------------------------------------------------------------------------------------------

other_try() { # PROGRAM VOICE
  case $PACKAGE_TARGET in
    *-musl) try_static "$1" ;;
    *) try_emulated "$1" "$2" ;;
  esac
}

try_static() { # PROGRAM
  need "looking at programs" file=file readelf=binutils
  [[ "$(file -b "$1")" = *static* ]] || check_wrong "$1 is not static: $(file -b "$1")"
  if readelf -d "$1" | grep NEEDED; then check_wrong "$1 needs libraries"; fi
  try_in_nothing "$1"
}

# The program alone in an otherwise empty root: no C library, no shell, no /etc, no /proc.
try_in_nothing() { # PROGRAM
  local root server address
  if [ "$(id -u)" != 0 ]; then say "package: a root with nothing but the program is SKIPPED: that takes root"; return; fi
  root=$(mktemp -d)
  mkdir "$root/films"
  cp "$1" "$root/fullbore"
  head -c 5000000 /dev/urandom >"$root/films/film.mp4"
  chroot "$root" /fullbore serve /films --listen 127.0.0.1:0 --admin 127.0.0.1:0 --state /state >"$root/said" 2>&1 &
  server=$!
  for _ in {1..300}; do
    grep -q '^ready' "$root/said" && break
    kill -0 "$server" 2>/dev/null || { cat "$root/said"; check_wrong "the static program ends in a root without anything else"; }
    sleep 0.1
  done
  address=$(grep -o 'https://127[^ ]*' "$root/said" | head -n 1)
  curl -sS --fail --insecure "${address%/}/film.mp4" | cmp - "$root/films/film.mp4" || { cat "$root/said"; check_wrong "other bytes from the static program"; }
  kill "$server"
  wait "$server" || check_wrong "the static program ends with exit code $?"
  rm -r "$root"
  say "$PACKAGE_TARGET: static; serves a film over HTTPS from a root with nothing else in it"
}

# A process emulator has no io_uring, so the program can't serve there; this tests the rest. docs/notes/aarch64.md has serving, on an emulated machine.
try_emulated() { # PROGRAM VOICE
  local machine=${PACKAGE_TARGET%-*} run folder
  if ! have "qemu-$machine-static" && ! (apt_install "trying a program for $machine" qemu-user-static); then
    say "package: trying the program for $machine is SKIPPED: there is no emulator"
    return
  fi
  run=("qemu-$machine-static" -L "/usr/$machine-linux-gnu" "$1")
  [ "$("${run[@]}" --version)" = "$("$2" --version)" ] || check_wrong "the program for $PACKAGE_TARGET says another version: $("${run[@]}" --version)"
  folder=$(mktemp -d)
  "${run[@]}" man "$folder/man"
  "$2" man "$folder/expected"
  diff -r "$folder/man" "$folder/expected" || check_wrong "the program for $PACKAGE_TARGET writes another manual"
  mkdir "$folder/films"
  "${run[@]}" serve "$folder/films" --listen 127.0.0.1:0 --admin 127.0.0.1:0 --state "$folder/state" --check >"$folder/said" 2>&1 ||
    { cat "$folder/said"; check_wrong "the program for $PACKAGE_TARGET refuses a configuration"; }
  rm -r "$folder"
  say "$PACKAGE_TARGET: says its version, writes the same manual, checks a configuration (in an emulator without io_uring, so it serves nothing here)"
}
