# shellcheck shell=bash
# An OCI image of the static program, made without a daemon: ./run package --image. packaging/package.bash sources this file.
#
# The file is an image layout (OCI image-spec 1.0) in a tar, with the manifest.json that docker load of before version 25 reads. It
# has one layer, and all of its times are the commit's: one program gives the same bytes twice.

IMAGE_NEEDS=(jq=jq tar=tar gzip=gzip)

# No user of the host has this number, and policies know it: distroless images use it.
IMAGE_USER=65532

# IMAGE_PROGRAM=FILE takes that static program instead of building one.
image_main() { # VOICE OUT CHECK: prints where the file is
  local program scratch file architecture status=0
  need "an image" "${IMAGE_NEEDS[@]}"
  program=${IMAGE_PROGRAM:-$(other_build "$(uname -m)-musl")} || status=$?
  if [ "$status" = 77 ]; then fail "the image is not made: it needs the static program (the reason is above)"; fi
  [ "$status" = 0 ] || fail "the static program cannot be built"
  umask 022
  architecture=$(package_architecture "$(uname -m)")
  scratch=$(mktemp -d)
  mkdir -p "$2" "$scratch/image/blobs/sha256"
  image_root "$program" "$1" "$scratch/root"
  image_tar "$scratch/root" "$scratch/layer.tar"
  image_blobs "$scratch" "$architecture"
  file=$2/fullbore-$PACKAGE_VERSION-$architecture-oci.tar
  image_tar "$scratch/image" "$file"
  rm -r "$scratch"
  printf '%s\n' "$file"
  [ -z "$3" ] || image_try "$file" "$program" "$1"
}

# The same bytes for the same files. In a layer, only /state and /tmp belong to the image's user.
image_tar() { # FOLDER FILE
  tar --create --format=ustar --sort=name --mtime="@$PACKAGE_TIME" --owner=0 --group=0 --numeric-owner --exclude=./state --exclude=./tmp -C "$1" --file "$2" .
  [ ! -d "$1/state" ] || tar --append --format=ustar --mtime="@$PACKAGE_TIME" --owner=$IMAGE_USER --group=$IMAGE_USER --numeric-owner -C "$1" --file "$2" ./state ./tmp
}

image_root() { # PROGRAM VOICE ROOT
  local doc=$3/usr/share/doc/fullbore
  mkdir -p "$3"/{etc,library,usr/bin} "$doc"
  install -d -m 700 "$3/state" "$3/tmp"
  objcopy --strip-debug --remove-section=.note.gnu.build-id "$1" "$3/usr/bin/fullbore"
  chmod 755 "$3/usr/bin/fullbore"
  printf 'root:x:0:0::/:/\nfullbore:x:%s:%s::/state:/\n' "$IMAGE_USER" "$IMAGE_USER" >"$3/etc/passwd"
  printf 'root:x:0:\nfullbore:x:%s:\n' "$IMAGE_USER" >"$3/etc/group"
  install -m 644 packaging/deb/copyright "$doc/"
  gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
  package_licences | gzip -9n >"$doc/third-party-licences.gz"
  image_sbom >"$doc/sbom.spdx.json"
}

# The parts of the program, as SPDX 2.3: its crates, and the libraries in its pages.
image_sbom() {
  {
    cargo tree --locked -p fullbore -e normal,no-proc-macro --prefix none -f '{p}|{l}' | sed 's/ (\*)//' | grep -v ' (/' | LC_ALL=C sort -u |
      sed 's/^\([^ ]*\) v\([^| ]*\)[^|]*|\(.*\)/cargo\t\1\t\2\t\3/'
    for name in hls.js dashjs uplot; do
      jq -r '["npm", .name, .version, .license] | @tsv' "web/node_modules/$name/package.json"
    done
  } | jq -R -n --arg version "$PACKAGE_VERSION" --arg time "$(image_time)" '
    def id: gsub("[^A-Za-z0-9.-]"; "-");
    [inputs | split("\t") | {kind: .[0], name: .[1], version: .[2],
      licence: (.[3] | gsub("/"; " OR ") | if . == "" then "NOASSERTION" else . end)}
      | . + {id: "SPDXRef-\(.kind)-\(.name | id)-\(.version | id)"}] as $parts |
    {spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: "fullbore-\($version)",
      documentNamespace: "https://spdx.org/spdxdocs/fullbore-\($version)",
      creationInfo: {created: $time, creators: ["Tool: fullbore-package"]},
      packages: ([{SPDXID: "SPDXRef-fullbore", name: "fullbore", versionInfo: $version, downloadLocation: "NOASSERTION", filesAnalyzed: false}]
        + [$parts[] | {SPDXID: .id, name, versionInfo: .version, downloadLocation: "NOASSERTION", filesAnalyzed: false,
          licenseConcluded: "NOASSERTION", licenseDeclared: .licence, copyrightText: "NOASSERTION",
          externalRefs: [{referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: "pkg:\(.kind)/\(.name)@\(.version)"}]}]),
      relationships: ([{spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-fullbore"}]
        + [$parts[] | {spdxElementId: "SPDXRef-fullbore", relationshipType: "DEPENDS_ON", relatedSpdxElement: .id}])}'
}

image_time() { date -u -d "@$PACKAGE_TIME" +%Y-%m-%dT%H:%M:%SZ; }

# Puts a file among the image's blobs, and prints its descriptor.
image_blob() { # SCRATCH FILE MEDIA-TYPE
  local digest
  digest=$(sha256sum "$2" | cut -d ' ' -f 1)
  cp "$2" "$1/image/blobs/sha256/$digest"
  jq -n -c --arg type "$3" --arg digest "sha256:$digest" --argjson size "$(stat -c %s "$2")" '{mediaType: $type, digest: $digest, size: $size}'
}

image_blobs() { # SCRATCH ARCHITECTURE
  local oci=application/vnd.oci.image layer config manifest
  gzip -9n <"$1/layer.tar" >"$1/layer.tar.gz"
  layer=$(image_blob "$1" "$1/layer.tar.gz" $oci.layer.v1.tar+gzip)
  jq -n -S --arg time "$(image_time)" --arg architecture "$2" --arg user "$IMAGE_USER:$IMAGE_USER" --arg version "$PACKAGE_VERSION" --arg commit "$PACKAGE_COMMIT" \
    --arg layer "sha256:$(sha256sum "$1/layer.tar" | cut -d ' ' -f 1)" '
    {created: $time, architecture: $architecture, os: "linux",
      config: {User: $user, WorkingDir: "/", Env: ["PATH=/usr/bin", "HOME=/state"], ExposedPorts: {"8443/tcp": {}},
        Entrypoint: ["/usr/bin/fullbore"], Cmd: ["serve", "/library", "--state", "/state"], Volumes: {"/library": {}, "/state": {}}, StopSignal: "SIGTERM",
        Healthcheck: {Test: ["CMD", "/usr/bin/fullbore", "health"], Interval: 10000000000, Timeout: 10000000000, StartPeriod: 30000000000},
        Labels: {"org.opencontainers.image.title": "Fullbore", "org.opencontainers.image.description": "Video libraries over HTTPS at the speed of the machine",
          "org.opencontainers.image.version": $version, "org.opencontainers.image.revision": $commit, "org.opencontainers.image.created": $time}},
      rootfs: {type: "layers", diff_ids: [$layer]},
      history: [{created: $time, created_by: "./run package --image"}]}' >"$1/config.json"
  config=$(image_blob "$1" "$1/config.json" $oci.config.v1+json)
  jq -n --argjson config "$config" --argjson layer "$layer" --arg type $oci.manifest.v1+json \
    '{schemaVersion: 2, mediaType: $type, config: $config, layers: [$layer]}' >"$1/manifest.json"
  manifest=$(image_blob "$1" "$1/manifest.json" $oci.manifest.v1+json)
  echo '{"imageLayoutVersion": "1.0.0"}' >"$1/image/oci-layout"
  jq -n --argjson manifest "$manifest" --arg architecture "$2" --arg tag "fullbore:$(image_tag)" --arg type $oci.index.v1+json \
    '{schemaVersion: 2, mediaType: $type, manifests: [$manifest + {platform: {architecture: $architecture, os: "linux"},
      annotations: {"org.opencontainers.image.ref.name": ($tag | split(":")[1]), "io.containerd.image.name": "docker.io/library/\($tag)"}}]}' >"$1/image/index.json"
  jq -n --argjson config "$config" --argjson layer "$layer" --arg tag "fullbore:$(image_tag)" \
    'def path: "blobs/" + (.digest | sub(":"; "/")); [{Config: ($config | path), RepoTags: [$tag], Layers: [$layer | path]}]' >"$1/image/manifest.json"
}

# A tag can't have the ~ of a version before a release.
image_tag() { tr '~' '-' <<<"$PACKAGE_VERSION"; }

# --- tests ---------------------------------------------------------------------------------------------------------------------

image_try() { # FILE PROGRAM VOICE
  local folder
  folder=$(mktemp -d)
  IMAGE_PROGRAM=$2 image_main "$3" "$folder" "" >/dev/null
  cmp "$1" "$folder/$(basename "$1")" || check_wrong "another image from the same program"
  rm -r "$folder"
  say "image: the same bytes twice"
  if [ "$(id -u)" != 0 ]; then say "package: running the image is SKIPPED: that takes root"; return; fi
  need "running an image" podman=podman crun=crun
  unshare --mount --propagation private packaging/try-image "$1" "$IMAGE_USER" || check_wrong "the image does not run"
  say "image: podman ran it as user $IMAGE_USER with a read-only root and no capabilities; it served a film over HTTPS and stopped"
}
