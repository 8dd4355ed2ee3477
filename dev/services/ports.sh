# Ports of the services: below 32768, where Linux takes the ports of outgoing connections from, and
# beside the ports that the same servers have by default.

# choose_ports sets the ports and remembers the offset, so that every later call finds the services.
choose_ports() {
  local file=$SERVICES_DIR/port-offset offset
  if [ -n "${SERVICES_PORT_OFFSET:-}" ]; then
    set_ports "$SERVICES_PORT_OFFSET"
    echo "$SERVICES_PORT_OFFSET" >"$file"
  elif [ -s "$file" ]; then
    set_ports "$(cat "$file")"
  else
    for ((offset = 0; offset < 2000; offset += 100)); do
      set_ports $offset
      free_ports && break
    done
    ((offset < 2000)) || die "no free ports from $POSTGRES_PORT downwards, set SERVICES_PORT_OFFSET"
    echo $offset >"$file"
  fi
}

set_ports() {
  POSTGRES_PORT=$((25432 + $1))
  POSTGRES18_PORT=$((25433 + $1))
  PGBOUNCER_PORT=$((26432 + $1))
  KAFKA_PORT=$((29092 + $1))
  KAFKA_CONTROLLER_PORT=$((29093 + $1))
  NATS_PORT=$((24222 + $1))
  NATS_HTTP_PORT=$((28222 + $1))
  AMQP_PORT=$((26672 + $1))
  AMQP_DIST_PORT=$((26673 + $1))
  AMQP_HTTP_PORT=$((27676 + $1))
  EPMD_PORT=$((24369 + $1))
}

free_ports() {
  local port
  for port in $POSTGRES_PORT $POSTGRES18_PORT $PGBOUNCER_PORT $KAFKA_PORT $KAFKA_CONTROLLER_PORT $NATS_PORT $NATS_HTTP_PORT $AMQP_PORT $AMQP_DIST_PORT $AMQP_HTTP_PORT $EPMD_PORT; do
    ! listening "$port" || return 1
  done
}
