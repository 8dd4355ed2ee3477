# A second major version of PostgreSQL, for the tests that depend on it: the binaries that Maven Central has for
# embedding, in a data directory of their own. Beside containers, too: tests start further servers with its programs.

POSTGRES18_VERSION=${SERVICES_POSTGRES_VERSION:-18.1.0}
POSTGRES18_HOME=$SERVICES_DIST/postgres-$POSTGRES18_VERSION

postgres18_port() { echo "$POSTGRES18_PORT"; }
postgres18_url() { echo "postgres://postgres@127.0.0.1:$POSTGRES18_PORT/postgres?sslmode=disable"; }

postgres18_install() {
  local machine archive
  # The user that PostgreSQL runs as comes with the distribution's package, as does what it is linked to.
  [ "$(id -u)" != 0 ] || id postgres >/dev/null 2>&1 || apt_install postgresql
  [ ! -f "$POSTGRES18_HOME/complete" ] || return 0
  say "fetching PostgreSQL $POSTGRES18_VERSION (Maven, 15 MiB)"
  case $(uname -m) in
    x86_64) machine=amd64 ;;
    aarch64) machine=arm64v8 ;;
    *) die "postgres18: no binaries for $(uname -m), give TEST_DATABASE_URL_OTHER" ;;
  esac
  command -v unzip >/dev/null || apt_install unzip
  command -v xz >/dev/null || apt_install xz-utils
  rm -rf "$POSTGRES18_HOME"
  maven_install "io.zonky.test.postgres:embedded-postgres-binaries-linux-$machine:$POSTGRES18_VERSION" "$POSTGRES18_HOME/jar"
  for archive in "$POSTGRES18_HOME"/jar/embedded-postgres-binaries-*.jar; do
    unzip -p "$archive" 'postgres-linux-*.txz' | tar -xJ -C "$POSTGRES18_HOME" --no-same-owner
  done
  chmod -R go+rX "$POSTGRES18_HOME"
  touch "$POSTGRES18_HOME/complete"
}

postgres18_start() {
  local data=$SERVICES_DIR/postgres18
  "${AS_POSTGRES[@]}" test -x "$SERVICES_DIR" -a -x "$POSTGRES18_HOME/bin" || die "the user postgres cannot reach $SERVICES_DIR, set SERVICES_DIR to a directory it can"
  postgres_cluster "$POSTGRES18_HOME/bin" "$data" C
  spawn postgres18 "${AS_POSTGRES[@]}" "$POSTGRES18_HOME/bin/postgres" -D "$data" -p "$POSTGRES18_PORT" -c shared_buffers=128MB
  until_ready postgres18 grep -qF 'ready to accept connections' "$LOGS/postgres18.log"
}

postgres18_stop() { terminate postgres18 INT; }
