# PostgreSQL: the distribution's package, any version from 14, in a data directory of its own.

postgres_port() { echo "$POSTGRES_PORT"; }
postgres_url() { echo "postgres://postgres@127.0.0.1:$POSTGRES_PORT/outbox?sslmode=disable"; }

# postgres_bin prints the directory with the newest server's programs. They are often not on the PATH.
postgres_bin() {
  local newest
  newest=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n1)
  if [ -x "$newest/postgres" ]; then
    echo "$newest"
  else
    newest=$(command -v postgres) || return 1
    dirname "$(readlink -f "$newest")"
  fi
}

# PostgreSQL refuses to run as root. setpriv, unlike su and runuser, leaves no process in between.
AS_POSTGRES=()
[ "$(id -u)" != 0 ] || AS_POSTGRES=(setpriv --reuid=postgres --regid=postgres --init-groups)

postgres_install() { postgres_bin >/dev/null || apt_install postgresql; }

# postgres_cluster BIN DATA LOCALE makes a data directory, unless it is there.
postgres_cluster() {
  local bin=$1 data=$2
  if [ ! -f "$data/PG_VERSION" ]; then
    rm -rf "$data" "$data.new" # what an interrupted call left
    mkdir -m 700 "$data.new"
    [ "$(id -u)" != 0 ] || chown postgres: "$data.new"
    (cd / && "${AS_POSTGRES[@]}" "$bin/initdb" -D "$data.new" -U postgres --auth=trust -E UTF8 --locale="$3") >"$LOGS/initdb.log" 2>&1 ||
      die "initdb failed, see $LOGS/initdb.log"
    # Durability stays as PostgreSQL ships it: benchmarks and crash tests run against this server too.
    cat >>"$data.new/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 512MB
max_connections = 200
wal_level = logical
max_wal_size = 4GB
CONF
    mv "$data.new" "$data"
  fi
  # PostgreSQL takes a killed server that nobody collected for a running one.
  if zombie "$(head -n1 "$data/postmaster.pid" 2>/dev/null)"; then rm "$data/postmaster.pid"; fi
}

postgres_start() {
  local data=$SERVICES_DIR/postgres bin
  bin=$(postgres_bin)
  "${AS_POSTGRES[@]}" test -x "$SERVICES_DIR" || die "the user postgres cannot reach $SERVICES_DIR, set SERVICES_DIR to a directory it can"
  postgres_cluster "$bin" "$data" C.UTF-8
  spawn postgres "${AS_POSTGRES[@]}" "$bin/postgres" -D "$data" -p "$POSTGRES_PORT"
  until_ready postgres postgres_psql postgres -c 'select 1'
  [ "$(postgres_psql postgres -c "select 1 from pg_database where datname = 'outbox'")" = 1 ] ||
    postgres_psql postgres -c 'create database outbox'
}

postgres_psql() { "$(postgres_bin)/psql" -qAtX -h 127.0.0.1 -p "$POSTGRES_PORT" -U postgres "$@"; }

postgres_stop() { terminate postgres INT; } # INT is the fast shutdown: it does not wait for clients
