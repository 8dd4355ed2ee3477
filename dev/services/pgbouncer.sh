# PgBouncer in transaction mode, in front of the PostgreSQL of TEST_DATABASE_URL or ours. It is a process of this machine
# also beside containers: the distribution's version 1.18 knows no prepared statements, which no current image can say.

pgbouncer_port() { echo "$PGBOUNCER_PORT"; }

pgbouncer_bin() { PATH=$PATH:/usr/sbin command -v pgbouncer; }
pgbouncer_install() { pgbouncer_bin >/dev/null || apt_install pgbouncer; }

# pgbouncer_target splits the URL of the database: USER PASSWORD HOST PORT NAME.
pgbouncer_target() {
  local url=${TEST_DATABASE_URL:-$(postgres_url)} form='^postgres(ql)?://([^:/@]+)(:([^@/]*))?@([^:/@,]+)(:([0-9]+))?/([^?]+)'
  [[ $url =~ $form ]] || die "pgbouncer: write TEST_DATABASE_URL as postgres://user:password@host:port/database, or give TEST_PGBOUNCER_URL"
  printf '%s\n' "${BASH_REMATCH[2]}" "${BASH_REMATCH[4]}" "${BASH_REMATCH[5]}" "${BASH_REMATCH[7]:-5432}" "${BASH_REMATCH[8]}"
}

pgbouncer_url() {
  local target
  mapfile -t target < <(pgbouncer_target)
  echo "postgres://${target[0]}@127.0.0.1:$PGBOUNCER_PORT/${target[4]}?sslmode=disable"
}

# No startup parameter is ignored: the strict case.
pgbouncer_config() {
  local target
  mapfile -t target < <(pgbouncer_target)
  cat <<CONF
[databases]
* = host=${target[2]} port=${target[3]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $PGBOUNCER_PORT
unix_socket_dir =
auth_type = trust
auth_file = $SERVICES_DIR/pgbouncer/userlist.txt
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
CONF
}

# pgbouncer_current reports whether it was started for the database that is meant now.
pgbouncer_current() { pgbouncer_config | cmp -s - "$SERVICES_DIR/pgbouncer/pgbouncer.ini"; }

pgbouncer_start() {
  local home=$SERVICES_DIR/pgbouncer target as=()
  mapfile -t target < <(pgbouncer_target)
  mkdir -p "$home"
  pgbouncer_config >"$home/pgbouncer.ini"
  (umask 077 && printf '"%s" "%s"\n' "${target[0]}" "${target[1]}" >"$home/userlist.txt")
  # PgBouncer refuses to run as root. Its package brings the user.
  if [ "$(id -u)" = 0 ]; then
    as=("${AS_POSTGRES[@]}")
    chown -R postgres: "$home"
    "${as[@]}" test -x "$home" || die "the user postgres cannot reach $SERVICES_DIR, set SERVICES_DIR to a directory it can"
  fi
  spawn pgbouncer "${as[@]}" "$(pgbouncer_bin)" "$home/pgbouncer.ini"
  until_ready pgbouncer listening "$PGBOUNCER_PORT"
}

pgbouncer_stop() { terminate pgbouncer TERM; } # at once; INT would wait for clients
