# The services of docker-compose.yml, on the same ports and with the same addresses as native ones.

compose_answers() {
  command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1
}

compose() {
  local project
  project=outbox-relay-$(printf %s "$SERVICES_DIR" | cksum | cut -d' ' -f1)
  POSTGRES_PORT=$POSTGRES_PORT KAFKA_PORT=$KAFKA_PORT NATS_PORT=$NATS_PORT AMQP_PORT=$AMQP_PORT AMQP_HTTP_PORT=$AMQP_HTTP_PORT KAFKA_SESSION_MS=$KAFKA_SESSION_MS \
    COMPOSE_PROFILES=kafka,nats,rabbitmq docker compose --project-name "$project" --file "$CHECKOUT/docker-compose.yml" "$@" </dev/null 9>&-
}

compose_up() { compose up --detach --wait --wait-timeout "$((SERVICES_TIMEOUT * 4))" "$1" >&2; } # images are pulled first

compose_running() { [ -n "$(compose ps --status running --quiet "$1" 2>/dev/null)" ]; }
