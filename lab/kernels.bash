# shellcheck shell=bash
# The lab's kernels: Debian's packages, downloaded by name with apt and unpacked, never installed. Read by machine.bash.
#
# A kernel is in LAB_CACHE/kernel-KIND/{boot,lib}. KIND says where it came from:
#   stable     the kernel of Debian's metapackage
#   trixie     the same in Debian 13, and
#   backports  in LAB_SUITE: for both, apt gets configurations of their own, and this host's stays as it is
#   known      the newest version by name that this host's apt knows, if there is no such suite
# The headers of the same kernel are in LAB_CACHE/headers-KIND: with them, the lab builds its network card (lab/card).
# The choice is kept, so a run needs no network once its kernels are there. Remove the folder to choose again.

LAB_SUITE=${LAB_SUITE:-trixie-backports}
LAB_KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

kernel_kind() { # stable|trixie|newest: makes sure that there is one, and prints its KIND
  local kind
  for kind in $([ "$1" = newest ] && echo backports known || echo "$1"); do
    if kernel_files "$kind" >&2; then printf '%s' "$kind"; return; fi
    say "no kernel of the kind \"$kind\" is available; machines that want the $1 one get another"
  done
  fail "apt knows no kernel for the lab (linux-image-cloud-amd64)"
}

kernel_files() { # KIND
  local folder=$LAB_CACHE/kernel-$1 package unpack
  if [ -d "$folder" ]; then return; fi
  have apt-get || fail "the lab takes its kernels from Debian's packages, and this system has no apt"
  kernel_lists "$1" || return 1
  package=$(kernel_package "$1")
  [ -n "$package" ] || return 1
  say "unpacking $package into $folder (not installed)"
  unpack=$(mktemp -d) || return 1
  kernel_unpacked "$1" "$package" "$unpack" || { rm -r "$unpack"; return 1; }
  mkdir -p "$LAB_CACHE"
  mv "$unpack" "$folder"
}

# --- apt -----------------------------------------------------------------------------------------------------------------------

kernel_lists() { # KIND: package lists as of today
  local folder=$LAB_CACHE/apt-$1 suite
  suite=$(kernel_suite "$1")
  if [ -z "$suite" ]; then apt_update; return; fi
  mkdir -p "$folder"/{lists,cache}/partial
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$(debian_mirror)" "$suite" "$LAB_KEYRING" >"$folder/lab.sources"
  cat >"$folder/apt.conf" <<TEXT
Dir::Etc::SourceList "$folder/lab.sources";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$folder/lists";
Dir::State::Status "/dev/null";
Dir::Cache "$folder/cache";
APT::Sandbox::User "root";
APT::Architecture "amd64";
APT::Architectures "amd64";
TEXT
  say "asking $(debian_mirror) for the kernel of $suite"
  kernel_apt "$1" apt-get update -qq --error-on=any </dev/null
}

kernel_suite() { # KIND: the suite to ask instead of this host's; empty for this host's
  case $1 in
    trixie) printf trixie ;;
    backports) printf '%s' "$LAB_SUITE" ;;
  esac
}

debian_mirror() { # the mirror of this host's Debian
  local found
  found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | sed -n 's/^[^#]*\(https\?:[^ ]*\/debian\)\/\?\( .*\)\?$/\1/p' | head -n 1)
  printf '%s' "${found:-http://deb.debian.org/debian}"
}

kernel_apt() { # KIND COMMAND...
  local kind=$1; shift
  if [ -n "$(kernel_suite "$kind")" ]; then APT_CONFIG=$LAB_CACHE/apt-$kind/apt.conf "$@"; else "$@"; fi
}

kernel_package() { # KIND
  case $1 in
    known) apt-cache search --names-only '^linux-image-[0-9][^ ]*[0-9+a-z]-cloud-amd64$' | awk '{ print $1 }' | grep -E '[0-9]\.[0-9]+\.[0-9]' | sort -V | tail -n 1 ;;
    *) kernel_apt "$1" apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-\)/\1/p' ;;
  esac
}

# Newer kernels have separate packages for the image, its modules and what both share, each with the kernel's release in its name.
kernel_unpacked() { # KIND PACKAGE FOLDER
  local release=${2#linux-image-} packages
  mapfile -t packages < <(kernel_apt "$1" apt-cache depends "$2" | sed -n "s/.*Depends: \(linux-.*-$release\)$/\1/p")
  (cd "$3" && kernel_apt "$1" apt-get download -qq "$2" "${packages[@]}" 2>/dev/null) || return 1
  for package in "$3"/*.deb; do { dpkg -x "$package" "$3" && rm "$package"; } || return 1; done
  [ ! -d "$3/usr/lib/modules" ] || kernel_where_it_was "$3"
}

# Their paths have changed, too: modules are in usr/lib/modules/RELEASE (Debian 13), and later vmlinuz and the configuration are in the same folder.
kernel_where_it_was() { # FOLDER
  local release file
  release=$(basename "$1"/usr/lib/modules/*)
  mkdir -p "$1/boot" "$1/lib"
  mv "$1/usr/lib/modules" "$1/lib/modules"
  for file in vmlinuz config; do
    if [ -f "$1/lib/modules/$release/$file" ]; then mv "$1/lib/modules/$release/$file" "$1/boot/$file-$release"; fi
  done
}

# --- headers -------------------------------------------------------------------------------------------------------------------

# Unpacks the headers of a kernel and prints their folder. They are of exactly the image's release.
kernel_headers() { # KIND
  local folder=$LAB_CACHE/headers-$1 release unpack package packages
  release=$(kernel_release "$1")
  if [ ! -d "$folder/usr/src/linux-headers-$release" ]; then
    kernel_lists "$1" >&2 || return 1
    mapfile -t packages < <(kernel_apt "$1" apt-cache depends "linux-headers-$release" | sed -n 's/.*Depends: \(linux-\(headers\|kbuild\)-[^ ]*\)$/\1/p')
    unpack=$(mktemp -d -p "$LAB_CACHE") || return 1
    (cd "$unpack" && kernel_apt "$1" apt-get download -qq "linux-headers-$release" "${packages[@]}" 2>/dev/null) || { rm -r "$unpack"; return 1; }
    for package in "$unpack"/*.deb; do { dpkg -x "$package" "$unpack" && rm "$package"; } || { rm -r "$unpack"; return 1; }; done
    # It includes another by its full path.
    sed -i "s|/usr/src|$folder/usr/src|" "$unpack/usr/src/linux-headers-$release/Makefile" || { rm -r "$unpack"; return 1; }
    rm -rf "$folder"
    mv "$unpack" "$folder"
    headers_tools "$folder" || return 1
  fi
  printf '%s' "$folder/usr/src/linux-headers-$release"
}

# Kernels of a newer Debian come with build tools that need its C library. If this host's is older, they run with the newer one, unpacked
# next to them: by its own loader, so nothing is installed and no other program is affected.
headers_tools() { # FOLDER
  local libraries=$1/libraries tool
  # shellcheck disable=SC2016 # the words of other shells
  while read -r tool; do
    if [[ $(ldd "$tool" 2>&1) != *"not found"* ]]; then continue; fi
    if [ ! -d "$libraries" ]; then
      kernel_lists trixie >&2 || return 1
      mkdir "$libraries"
      (cd "$libraries" && kernel_apt trixie apt-get download -qq libc6 libelf1t64 zlib1g libzstd1 2>/dev/null) || return 1
      for package in "$libraries"/*.deb; do { dpkg -x "$package" "$libraries" && rm "$package"; } || return 1; done
    fi
    mv "$tool" "$tool.elf"
    printf '#!/bin/sh\nexec "%s" --library-path "%s" --argv0 "$0" "$0.elf" "$@"\n' "$libraries/usr/lib64/ld-linux-x86-64.so.2" \
      "$libraries/usr/lib/x86_64-linux-gnu" >"$tool"
    chmod +x "$tool"
  done < <(find "$1/usr/lib" -type f -perm -u+x -exec sh -c 'head -c 4 "$1" | grep -q ELF && echo "$1"' _ {} \;)
  # With it, the build would ask pahole for type information, which an older one gets wrong. The module needs none.
  rm -f "$1"/usr/src/linux-headers-*/vmlinux
}

# The compiler that a kernel was built with, if this host has it. Else the host's own, which knows fewer options.
headers_compiler() { # HEADERS FOLDER: prints the argument for make
  local wanted
  wanted=$(sed -n 's/^CC = .*(CROSS_COMPILE)//p' "$1/.kernelvariables")
  if have "$wanted"; then printf '%s' "CC=$wanted"; return; fi
  mkdir -p "$2"
  cat >"$2/cc" <<'TEXT'
#!/bin/bash
exec gcc "${@/#-fmin-function-alignment=/-falign-functions=}"
TEXT
  chmod +x "$2/cc"
  printf '%s' "CC=$2/cc"
}

# Builds the lab's network card for a kernel, and prints where the module is. It is GPL-2.0 and stays here: no package and no program contains it.
kernel_card() { # KIND
  local headers build=$LAB_CACHE/card-$1
  headers=$(kernel_headers "$1") || { say "apt has no headers of $(kernel_release "$1"); for new ones of both, remove $LAB_CACHE/kernel-$1"; return 1; }
  rm -rf "$build"
  cp -r lab/card "$build"
  make -s -C "$headers" M="$build" "$(headers_compiler "$headers" "$build/tools")" modules >"$build/log" 2>&1 ||
    { say "the lab's network card does not build for this kernel: $build/log"; return 1; }
  printf '%s' "$build/fullbore_card.ko"
}

# --- modules -------------------------------------------------------------------------------------------------------------------

kernel_release() { basename "$LAB_CACHE/kernel-$1"/lib/modules/*; } # KIND

# Copies the modules of lab/modules and their dependencies, uncompressed, with the indexes that modprobe reads. Modules that this kernel has
# built in, or does not have, are left out: the scenarios report missing ones.
kernel_modules() { # KIND ROOT
  local from=$LAB_CACHE/kernel-$1 release file name card
  release=$(kernel_release "$1")
  [ -f "$from/lib/modules/$release/modules.dep" ] || depmod -b "$from" "$release"
  mkdir -p "$2/lib/modules/$release"
  awk '/^(start|ask)/ { print $2 }' lab/modules | while read -r name; do
    modprobe -d "$from" -S "$release" --show-depends "$name" 2>/dev/null || true
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r file; do
    install -D -m 644 "$file" "$2/${file#"$from/"}"
    case $file in *.xz) xz -d "$2/${file#"$from/"}" ;; esac
  done
  if card=$(kernel_card "$1"); then install -D -m 644 "$card" "$2/lib/modules/$release/extra/fullbore_card.ko"; fi
  cp "$from/lib/modules/$release"/modules.{builtin,builtin.modinfo,order} "$2/lib/modules/$release/"
  depmod -b "$2" "$release"
}
