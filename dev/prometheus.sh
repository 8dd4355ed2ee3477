#!/usr/bin/env bash
# prometheus.sh - put prometheus and promtool into bin/, for the tests of the alerts: those on the PATH, else those of Debian's
# package, of which nothing is installed.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
die() {
  say "prometheus.sh: $*"
  exit 1
}

CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
mkdir -p "$CHECKOUT/bin"
PATH=${PATH//$CHECKOUT\/bin:/} # not those that are there already

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
  ln -sf "$(command -v prometheus)" "$(command -v promtool)" "$CHECKOUT/bin/"
  exit
fi

command -v apt-get >/dev/null || die "prometheus and promtool are missing: put them on the PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
say "fetching prometheus (apt, 30 MiB)"
if ! apt-get download -qq prometheus >/dev/null 2>&1; then
  [ "$(id -u)" = 0 ] || die "apt does not know the package prometheus: run sudo apt-get update, or put prometheus and promtool on the PATH"
  apt-get update -qq >/dev/null || true # an earlier index may suffice
  apt-get download -qq prometheus >/dev/null || die "apt-get download prometheus failed: put prometheus and promtool on the PATH"
fi
dpkg-deb --extract prometheus_*.deb .
install -m 755 usr/bin/prometheus usr/bin/promtool "$CHECKOUT/bin/"
