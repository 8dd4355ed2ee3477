#!/usr/bin/env bash
# Makes the image without Docker: an OCI layout in the folder OUT/image, with an image for each architecture, and the
# digests of all in OUT/digests. It is the image of the Dockerfile: from scratch, certificates and the binary. The
# certificates come from a Go module, so that no other image is needed. A test compares the two.
#
#   VERSION=0.1.0 COMMIT=abc SOURCE=https://… AT=2026-01-02T03:04:05Z dev/release/image.sh BINARIES OUT
#
# BINARIES has linux-ARCHITECTURE/outbox-relay for each architecture.
set -euo pipefail
export LC_ALL=C # the order of names
cd "$(dirname "$0")/../.."
binaries=$1 out=$2 layout=$2/image
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$layout/blobs/sha256" "$work/certificates/etc/ssl/certs"
at=$(date --utc --date="$AT" +%Y-%m-%dT%H:%M:%SZ)

# blob TYPE FILE stores a file under its digest, and prints its descriptor.
blob() {
  local sum
  sum=$(sha256sum <"$2" | cut -d' ' -f1)
  cp "$2" "$layout/blobs/sha256/$sum"
  jq -cn --arg type "application/vnd.oci.image.$1" --arg digest "sha256:$sum" --argjson size "$(stat -c %s "$2")" \
    '{mediaType: $type, digest: $digest, size: $size}'
}

# layer FOLDER writes FOLDER.tar of what is in the folder, all owned by root, and prints the layer's descriptor.
layer() {
  (cd "$1" && find . -mindepth 1 -printf '%P\0') | sort --zero-terminated |
    tar --create --directory "$1" --null --no-recursion --files-from=- --format=ustar --mtime="$at" --owner=0 --group=0 \
      --numeric-owner --mode=u=rwX,go=rX >"$1.tar"
  gzip --no-name --stdout "$1.tar" >"$1.tar.gz"
  blob layer.v1.tar+gzip "$1.tar.gz"
}

# id FOLDER prints the digest of an unpacked layer.
id() { echo "sha256:$(sha256sum <"$1.tar" | cut -d' ' -f1)"; }

labels=$(jq -cn --arg version "$VERSION" --arg commit "$COMMIT" --arg source "${SOURCE-}" '{
    title: "outbox-relay", licenses: "Apache-2.0", version: $version, revision: $commit,
    description: "Publishes the rows of a transactional outbox table to Kafka, NATS JetStream or RabbitMQ"
  } + if $source == "" then {} else {source: $source} end
  | with_entries(.key = "org.opencontainers.image." + .key)')

(cd dev/release && go run .) >"$work/certificates/etc/ssl/certs/ca-certificates.crt"
certificates=$(layer "$work/certificates")
manifests=()
for architecture in amd64 arm64; do
  install -D --mode=755 "$binaries/linux-$architecture/outbox-relay" "$work/$architecture/outbox-relay"
  program=$(layer "$work/$architecture")
  jq -cn --arg architecture "$architecture" --arg at "$at" --argjson labels "$labels" --args '{
      os: "linux", architecture: $architecture, created: $at,
      rootfs: {type: "layers", diff_ids: $ARGS.positional},
      config: {
        User: "65532:65532", Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        ExposedPorts: {"9630/tcp": {}}, Entrypoint: ["/outbox-relay"], Cmd: ["run"], WorkingDir: "/",
        Healthcheck: {
          Test: ["CMD", "/outbox-relay", "healthcheck"],
          Interval: 10000000000, Timeout: 3000000000, StartPeriod: 5000000000
        },
        Labels: $labels
      }
    }' "$(id "$work/certificates")" "$(id "$work/$architecture")" >"$work/config"
  config=$(blob config.v1+json "$work/config")
  jq -cn --argjson config "$config" --argjson certificates "$certificates" --argjson program "$program" '{
      schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config,
      layers: [$certificates, $program]
    }' >"$work/manifest"
  manifest=$(blob manifest.v1+json "$work/manifest" |
    jq -c --arg architecture "$architecture" '. + {platform: {os: "linux", architecture: $architecture}}')
  manifests+=("$manifest")
  jq -r --arg architecture "$architecture" '"image-\($architecture)=\(.digest)"' <<<"$manifest"
done >"$out/digests"

# index DESCRIPTOR… prints an index.
index() {
  jq -cn --argjson labels "$labels" --jsonargs '{
    schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: $ARGS.positional,
    annotations: $labels
  }' "$@"
}

index "${manifests[@]}" >"$work/index"
image=$(blob index.v1+json "$work/index")
jq -r '"image=\(.digest)"' <<<"$image" >>"$out/digests"
index "$(jq -c --arg version "$VERSION" '. + {annotations: {"org.opencontainers.image.ref.name": $version}}' <<<"$image")" \
  >"$layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
