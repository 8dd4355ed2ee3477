# RabbitMQ: the distribution's package, run as an ordinary process beside any server of the machine, with its management
# interface.

RABBITMQ_BIN=/usr/lib/rabbitmq/bin # behind the package's wrappers, which switch user and drop the environment

rabbitmq_port() { echo "$AMQP_PORT"; }
rabbitmq_url() { echo "amqp://guest:guest@127.0.0.1:$AMQP_PORT/"; }

rabbitmq_management_url() { echo "http://guest:guest@127.0.0.1:$AMQP_HTTP_PORT"; }

# rabbitmq_release RELEASE makes a root directory of that Debian release with its RabbitMQ, and prints it. Paths below it are the same
# from inside, so that a set of services in it works from both sides.
rabbitmq_release() {
  local root
  root=$(cd "$SERVICES_DIST" && pwd -P)/debian-$1
  if [ ! -f "$root/complete" ]; then
    [ "$(id -u)" = 0 ] || die "another release of Debian needs root"
    command -v debootstrap >/dev/null || apt_install debootstrap
    say "fetching Debian $1 with RabbitMQ (150 MB)"
    rm -rf "$root"
    debootstrap --variant=minbase --include=rabbitmq-server "$1" "$root" http://deb.debian.org/debian >"$LOGS/debootstrap.log" 2>&1 9>&- </dev/null ||
      die "debootstrap failed, see $LOGS/debootstrap.log"
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
    mkdir -p "$root$(dirname "$root")"
    ln -s / "$root$root"
    touch "$root/complete"
  fi
  echo "$root"
}

# rabbitmq_within COMMAND... prints the command as it runs in the other release, if there is one.
rabbitmq_within() { echo "${SERVICES_RABBITMQ_ROOT:+chroot $SERVICES_RABBITMQ_ROOT }$*"; }

rabbitmq_install() { [ -x "$RABBITMQ_BIN/rabbitmq-server" ] || apt_install rabbitmq-server; }

rabbitmq_environment() {
  local home=$SERVICES_DIR/rabbitmq
  export HOME=$home # the Erlang cookie lives here
  export RABBITMQ_NODENAME=outbox@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$AMQP_PORT
  export RABBITMQ_DIST_PORT=$AMQP_DIST_PORT ERL_EPMD_PORT=$EPMD_PORT ERL_EPMD_ADDRESS=127.0.0.1
  export RABBITMQ_MNESIA_BASE=$home/mnesia RABBITMQ_LOG_BASE=$home/log RABBITMQ_PID_FILE=$RUN/rabbitmq.pid
  export RABBITMQ_CONFIG_FILE=$home/rabbitmq.conf RABBITMQ_ENABLED_PLUGINS_FILE=$home/enabled_plugins
  export RABBITMQ_CONF_ENV_FILE=$home/rabbitmq-env.conf
  export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}"
}

rabbitmq_start() {
  local home=$SERVICES_DIR/rabbitmq start=$SECONDS
  mkdir -p "$home/log"
  : >"$home/rabbitmq-env.conf"
  echo "[rabbitmq_management${SERVICES_RABBITMQ_PLUGINS:+,$SERVICES_RABBITMQ_PLUGINS}]." >"$home/enabled_plugins"
  local memory=() # which a release within a directory cannot find out, as it has no /proc
  [ -z "${SERVICES_RABBITMQ_ROOT:-}" ] || memory=('vm_memory_calculation_strategy = erlang' 'total_memory_available_override_value = 4GB')
  printf '%s\n' "${memory[@]}" 'log.file.level = info' 'disk_free_limit.absolute = 1GB' 'management.tcp.ip = 127.0.0.1' \
    "management.tcp.port = $AMQP_HTTP_PORT" "${SERVICES_RABBITMQ_CONF:-}" >"$home/rabbitmq.conf"
  rabbitmq_ctl
  # epmd, the Erlang port mapper, would otherwise stay behind as a daemon on its default port.
  if ! pid epmd >/dev/null; then
    spawn epmd bash -c "exec -a 'epmd $SERVICES_DIR' epmd -address 127.0.0.1 -port $EPMD_PORT"
    until_ready epmd listening "$EPMD_PORT"
  fi
  rm -f "$RUN/rabbitmq.pid"
  (
    rabbitmq_environment
    # shellcheck disable=SC2046  # words of a command
    detach $(rabbitmq_within "$RABBITMQ_BIN/rabbitmq-server") >"$LOGS/rabbitmq.log" 2>&1 &
  )
  until [ -s "$RUN/rabbitmq.pid" ]; do # written by the server
    ((SECONDS < start + SERVICES_TIMEOUT)) || die "rabbitmq did not start, see $LOGS/rabbitmq.log"
    sleep 0.1
  done
  until_ready rabbitmq rabbitmq_booted
}

# rabbitmq_current reports whether it has its management interface; those that older checkouts started do not.
rabbitmq_current() { listening "$AMQP_HTTP_PORT"; }

# rabbitmq_ctl writes a rabbitmqctl for this node.
rabbitmq_ctl() {
  mkdir -p "$SERVICES_DIR/bin"
  (
    rabbitmq_environment
    echo '#!/bin/bash'
    for name in HOME ${!RABBITMQ_@} ${!ERL_EPMD_@}; do printf 'export %s=%q\n' "$name" "${!name}"; done
    echo "exec $(rabbitmq_within "$RABBITMQ_BIN/rabbitmqctl") \"\$@\""
  ) >"$SERVICES_DIR/bin/rabbitmqctl"
  chmod +x "$SERVICES_DIR/bin/rabbitmqctl"
}

# A protocol header is answered with Connection.Start.
rabbitmq_booted() {
  local reply
  listening "$AMQP_HTTP_PORT" || return 1
  exec 3<>"/dev/tcp/127.0.0.1/$AMQP_PORT" || return 1
  printf 'AMQP\0\0\11\1' >&3
  reply=$(timeout 5 head -c 20 <&3 | od -An -tx1 | tr -d ' \n')
  exec 3>&-
  [[ $reply == 01*000a000a* ]] # method frame, class connection, method start
}

rabbitmq_stop() {
  terminate rabbitmq TERM
  terminate epmd TERM
}
