#!/usr/bin/env bash
# build.sh - build an earlier version of the relay, for the tests of upgrades, and print the path of the binary.
#
#   dev/build.sh COMMIT
#
# Binaries are kept in .services/builds. A clone that does not reach back to the commit fetches it from where the clone comes from.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
die() {
  say "build.sh: $*"
  exit 1
}

commit=${1:?usage: build.sh COMMIT}
CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
builds=$CHECKOUT/.services/builds
binary=$builds/$commit
mkdir -p "$builds"
if [ -x "$binary" ]; then
  echo "$binary"
  exit
fi

cd "$CHECKOUT"
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  say "fetching $commit"
  git fetch --quiet --depth=1 origin "$commit" ||
    git fetch --quiet --unshallow origin ||
    die "this clone has no commit $commit, and its origin does not give it: clone the whole history"
fi
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git archive "$commit" | tar -x -C "$source"
say "building $commit"
(cd "$source" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags grpcnotrace -o "$binary.new" .)
mv "$binary.new" "$binary"
echo "$binary"
