#!/usr/bin/env bash
# Makes the files of a release: binaries in archives, bills of materials, the image, the chart and the checksums.
#
#   VERSION=0.1.0 COMMIT=abc SOURCE=https://… DIST=dist dev/release/release.sh
#
# Two runs on the same commit with the same Go, helm, tar and gzip give files that are equal byte for byte. Needs GNU
# tar and jq. The contents of the folder DIST are deleted.
set -euo pipefail
export LC_ALL=C # the order of names
cd "$(dirname "$0")/../.."

VERSION=${VERSION#v}
# Image tags and Helm both accept these: without build metadata, since a tag cannot contain its plus sign.
if ! [[ $VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
  echo "release: VERSION=$VERSION is not a version such as 0.1.0 or 0.1.0-rc.1" >&2
  exit 1
fi
at=$(git log -1 --format=%cI)
rm -rf "$DIST"
mkdir -p "$DIST/work"
work=$(cd "$DIST/work" && pwd)

# pack FILE FOLDER writes an archive of a folder that depends only on the names, contents and right to execute.
pack() {
  (cd "$2" && find . -type f -printf '%P\0') | sort --zero-terminated |
    tar --create --directory "$2" --null --files-from=- --format=ustar --mtime="$at" \
      --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX | gzip --no-name >"$1"
}

# Linux is for servers, macOS for the laptops from which operators run status, doctor and failed.
for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
  folder=$work/$platform
  file=$DIST/outbox-relay_${VERSION}_${platform/-/_}
  mkdir "$folder"
  GOOS=${platform%-*} GOARCH=${platform#*-} MAKEFLAGS='' \
    make build OUT="$folder/outbox-relay" VERSION="$VERSION" COMMIT="$COMMIT"
  cp LICENSE README.md CHANGELOG.md "$folder"
  pack "$file.tar.gz" "$folder"
  VERSION=$VERSION AT=$at dev/release/bill.sh "$folder/outbox-relay" >"$file.cdx.json"
done
VERSION=$VERSION COMMIT=$COMMIT SOURCE=${SOURCE-} AT=$at dev/release/image.sh "$work" "$DIST"

# Helm writes the times of the checkout's files, so the chart is packed again.
chart=outbox-relay-$VERSION.tgz
mkdir "$work/chart"
bin/helm package charts/outbox-relay --version "$VERSION" --app-version "$VERSION" --destination "$work" >/dev/null
tar --extract --file "$work/$chart" --directory "$work/chart"
pack "$DIST/$chart" "$work/chart"

rm -rf "$work"
checksums=$(cd "$DIST" && find . -maxdepth 1 -type f -printf '%P\0' | sort --zero-terminated | xargs -0 sha256sum)
tee "$DIST/SHA256SUMS" <<<"$checksums"
