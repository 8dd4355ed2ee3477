# The services of docker-compose.yml, on the same ports and with the same addresses as native ones.

compose_answers() {
  command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1
}

compose_project() { echo "outbox-relay-$(printf %s "$SERVICES_DIR" | cksum | cut -d' ' -f1)"; }

compose() {
  local project
  project=$(compose_project)
  POSTGRES_PORT=$POSTGRES_PORT KAFKA_PORT=$KAFKA_PORT NATS_PORT=$NATS_PORT AMQP_PORT=$AMQP_PORT AMQP_HTTP_PORT=$AMQP_HTTP_PORT KAFKA_SESSION_MS=$KAFKA_SESSION_MS \
    COMPOSE_PROFILES=kafka,nats,rabbitmq docker compose --project-name "$project" --file "$CHECKOUT/docker-compose.yml" "$@" </dev/null 9>&-
}

compose_up() { # images are pulled first
  compose up --detach --wait --wait-timeout "$((SERVICES_TIMEOUT * 4))" "$1" >&2
  case $1 in
    kafka)
      compose_tool kafka-topics kafka /opt/kafka/bin/kafka-topics.sh "127.0.0.1:$KAFKA_PORT" kafka:9092
      compose_tool kafka-console-consumer kafka /opt/kafka/bin/kafka-console-consumer.sh "127.0.0.1:$KAFKA_PORT" kafka:9092
      ;;
    postgres) command -v psql >/dev/null || compose_tool psql postgres psql "127.0.0.1:$POSTGRES_PORT" 127.0.0.1:5432 ;;
  esac
}

# compose_tool NAME SERVICE COMMAND OUTSIDE INSIDE writes a command that runs in the service's container, where the service has the
# address INSIDE in place of OUTSIDE.
compose_tool() {
  mkdir -p "$SERVICES_DIR/bin"
  cat >"$SERVICES_DIR/bin/$1" <<SH
#!/usr/bin/env bash
exec docker compose --project-name $(compose_project) --file $(printf %q "$CHECKOUT/docker-compose.yml") exec -T $2 $3 "\${@//$4/$5}"
SH
  chmod +x "$SERVICES_DIR/bin/$1"
}

compose_running() { [ -n "$(compose ps --status running --quiet "$1" 2>/dev/null)" ]; }
