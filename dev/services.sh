#!/usr/bin/env bash
# services.sh - PostgreSQL, PgBouncer, Kafka, NATS JetStream and RabbitMQ for tests, demo and benchmarks.
#
#   dev/services.sh up     [SERVICE...]   obtain and start, wait until ready
#   dev/services.sh install [SERVICE...]  obtain the software of native ones and print the PATH to it
#   dev/services.sh stop   [SERVICE...]   stop gracefully; data is kept
#   dev/services.sh start  [SERVICE...]   start again what was stopped, also after eval "$(dev/services.sh env)"
#   dev/services.sh crash  [SERVICE...]   kill -9, for recovery tests; `up` starts it again
#   dev/services.sh wipe   [SERVICE...]   stop and delete the data
#   dev/services.sh purge                 wipe all, delete logs and downloads too
#   dev/services.sh status                state and address of each
#   dev/services.sh env                   export lines: eval "$(dev/services.sh env)"
#   dev/services.sh rabbitmq_release RELEASE   obtain RabbitMQ of another Debian release and print its root
#   dev/services.sh chromium              obtain Chromium, for the tests of the status page, and print its path
#   dev/services.sh debezium              obtain Debezium, for the test of the migration, and print its directory
#   dev/services.sh run [SERVICE...] -- COMMAND...   up, then COMMAND with that environment
#
# SERVICE is postgres, postgres18 (another major version), pgbouncer (in front of postgres), kafka, nats or
# rabbitmq; none means all. Repeating a verb is harmless.
#
# A service is taken from, in this order,
#   1. its variable, TEST_DATABASE_URL, TEST_DATABASE_URL_OTHER, TEST_PGBOUNCER_URL, TEST_KAFKA_URL, TEST_NATS_URL
#      or TEST_AMQP_URL (then give RabbitMQ's management interface as TEST_AMQP_MANAGEMENT_URL): left alone;
#   2. Docker Compose (docker-compose.yml), when a daemon answers, but for PgBouncer and postgres18;
#   3. a process of this machine, its software installed if need be (apt as root, Maven, Go).
#
# Settings, all optional:
#   SERVICES_MODE         compose or native instead of asking for a Docker daemon
#   SERVICES_DIR          data, logs and pids; default .services in the checkout
#   SERVICES_PORT_OFFSET  added to every port; default the first of 0, 100, ... whose ports are free
#   SERVICES_TIMEOUT      seconds that a service may take to become ready; default 90
#   SERVICES_POSTGRES_VERSION, SERVICES_KAFKA_VERSION, SERVICES_NATS_VERSION  another version of postgres18 or of a native server
#   SERVICES_RABBITMQ_ROOT  root of a Debian with another RabbitMQ, from rabbitmq_release; SERVICES_DIR is below it, and it needs root
#   KAFKA_SESSION_MS      how long a crashed Kafka is kept out; default 2000
#   SERVICES_KAFKA_PROPERTIES  further lines for the server.properties of a native Kafka; the last of a name counts
#   SERVICES_NATS_CONF         further lines for the nats.conf of a native NATS
#   SERVICES_RABBITMQ_CONF     further lines for the rabbitmq.conf of a native RabbitMQ
#   SERVICES_RABBITMQ_PLUGINS  its plugins beside management, separated by commas
#   KAFKA_ADVERTISED_PORT the port that Kafka advertises to clients, such as a proxy's; default its own
#
# Everything listens on 127.0.0.1 only. A second set beside the first needs a SERVICES_DIR of its own
# and the TEST_ variables unset.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
die() {
  say "services.sh: $*"
  exit 1
}

CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
ALL=(postgres postgres18 pgbouncer kafka nats rabbitmq) # in the order of their start

# PostgreSQL runs as its own user when we are root, and must reach its data.
home=$CHECKOUT/.services
if [ "$(id -u)" = 0 ] && ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$CHECKOUT" 2>/dev/null; then
  home=/var/tmp/outbox-relay-$(printf %s "$CHECKOUT" | cksum | cut -d' ' -f1)
fi
SERVICES_DIST=$home/dist # what was downloaded, for every set of this checkout
# Versions other than those of the tests have a directory of their own.
versions=${SERVICES_KAFKA_VERSION:+kafka-$SERVICES_KAFKA_VERSION}${SERVICES_NATS_VERSION:+nats-$SERVICES_NATS_VERSION}
versions+=${SERVICES_POSTGRES_VERSION:+postgres-$SERVICES_POSTGRES_VERSION}
if [ -n "$versions" ]; then SERVICES_DIST=$SERVICES_DIST/$versions; fi
mkdir -p "${SERVICES_DIR:=$home}" "$SERVICES_DIST"
[[ -O $SERVICES_DIR && -O $SERVICES_DIST ]] || die "$SERVICES_DIR belongs to another user"
SERVICES_DIR=$(cd "$SERVICES_DIR" && pwd -P)
SERVICES_TIMEOUT=${SERVICES_TIMEOUT:-90}
KAFKA_SESSION_MS=${KAFKA_SESSION_MS:-2000}
LOGS=$SERVICES_DIR/logs RUN=$SERVICES_DIR/run

for part in ports process install compose postgres postgres18 pgbouncer kafka nats rabbitmq chromium debezium; do
  # shellcheck source=/dev/null
  . "$CHECKOUT/dev/services/$part.sh"
done

# variable SERVICE prints the name of the variable with its address.
variable() {
  case $1 in
    postgres) echo TEST_DATABASE_URL ;;
    postgres18) echo TEST_DATABASE_URL_OTHER ;;
    pgbouncer) echo TEST_PGBOUNCER_URL ;;
    kafka) echo TEST_KAFKA_URL ;;
    nats) echo TEST_NATS_URL ;;
    rabbitmq) echo TEST_AMQP_URL ;;
  esac
}

# given SERVICE reports whether the environment names a service that this script has not started.
given() {
  local name
  if [ "$verb" = start ]; then return 1; fi
  name=$(variable "$1")
  [ -n "${!name:-}" ]
}

# mode decides where services come from. Native services that run already are not duplicated by containers.
mode() {
  local service
  for service in "${ALL[@]}"; do
    case $service in pgbouncer | postgres18) continue ;; esac # they are native in any case
    if [ -z "${SERVICES_MODE:-}" ] && pid "$service" >/dev/null; then SERVICES_MODE=native; fi
  done
  if [ -z "${SERVICES_MODE:-}" ]; then
    if compose_answers; then SERVICES_MODE=compose; else SERVICES_MODE=native; fi
  fi
  case $SERVICES_MODE in
    compose | native) ;;
    *) die "SERVICES_MODE is compose or native, not $SERVICES_MODE" ;;
  esac
}

# contained SERVICE reports whether it is one of the containers.
contained() { [[ $SERVICES_MODE = compose && $1 != pgbouncer && $1 != postgres18 ]]; }

running() {
  if contained "$1"; then compose_running "$1"; else pid "$1" >/dev/null; fi
}

started=() # by this call
up() {
  local service begun
  for service in "$@"; do
    if given "$service"; then
      say "$service: $(variable "$service") is set, nothing to start"
      continue
    fi
    case $service in pgbouncer | rabbitmq)
      if running "$service" && ! "${service}_current"; then stop "$service"; fi
      ;;
    esac
    running "$service" && continue
    if ! contained "$service"; then "${service}_install"; fi
    listening "$("${service}_port")" && die "$service: another process has port $("${service}_port"); stop it, or set SERVICES_PORT_OFFSET"
    begun=$(date +%s%N)
    if contained "$service"; then compose_up "$service"; else "${service}_start"; fi
    started+=("$service")
    say "$service: ready after $((($(date +%s%N) - begun) / 1000000)) ms at 127.0.0.1:$("${service}_port")"
  done
}

# install serves tests that run several servers of their own.
install() {
  local service
  for service in "$@"; do "${service}_install"; done
  echo "$SERVICES_DIST/bin:$CHECKOUT/bin:$RABBITMQ_BIN:$PATH"
}

stop() {
  local service
  for service in "$@"; do
    if contained "$service"; then compose stop "$service" >&2; else "${service}_stop"; fi
    say "$service: stopped"
  done
}

crash() {
  local service
  for service in "$@"; do
    if ! running "$service"; then
      say "$service: not running"
    elif contained "$service"; then
      compose kill -s KILL "$service" >&2
    else
      kill9 "$service"
      say "$service: killed"
    fi
  done
}

wipe() {
  local service
  for service in "$@"; do
    if contained "$service"; then compose rm -sfv "$service" >&2; else "${service}_stop"; fi
    rm -rf "${SERVICES_DIR:?}/$service"
    say "$service: wiped"
  done
  [ $# -lt ${#ALL[@]} ] || rm -f "$SERVICES_DIR/port-offset"
}

purge() {
  wipe "${ALL[@]}"
  rm -rf "${SERVICES_DIR:?}"/{bin,dist,logs,run,.lock}
  rmdir "$SERVICES_DIR" 2>/dev/null || true
}

status() {
  local service name
  say "$SERVICES_MODE services in $SERVICES_DIR"
  for service in "${ALL[@]}"; do
    name=$(variable "$service")
    if given "$service"; then
      printf '%-10s given by %s\n' "$service" "$name"
    elif running "$service"; then
      printf '%-10s up    %s\n' "$service" "$("${service}_url")"
    else
      printf '%-10s down\n' "$service"
    fi
  done
}

environment() {
  local service name value
  for service in "${ALL[@]}"; do
    name=$(variable "$service")
    value=${!name:-$("${service}_url")}
    printf "export %s='%s'\n" "$name" "${value//\'/\'\\\'\'}"
  done
  # RabbitMQ's management interface, unless the broker comes from the environment.
  value=${TEST_AMQP_MANAGEMENT_URL:-$(given rabbitmq || rabbitmq_management_url)}
  [ -z "$value" ] || printf "export TEST_AMQP_MANAGEMENT_URL='%s'\n" "${value//\'/\'\\\'\'}"
  # For tests that start and kill servers of their own.
  printf 'export TEST_POSTGRES_BIN=%q\n' "${TEST_POSTGRES_BIN:-$(postgres_bin || echo "$POSTGRES18_HOME/bin")}"
  printf 'export PATH=%q:"$PATH"\n' "$SERVICES_DIR/bin:$SERVICES_DIST/bin:$CHECKOUT/bin"
}

# run COMMAND... keeps services for the next run, except in CI.
run() {
  local code=0
  eval "$(environment)"
  "$@" || code=$?
  if [ ${#started[@]} -gt 0 ]; then
    if [ -n "${CI:-}" ]; then locked stop "${started[@]}"; else say "left running for the next time: ${started[*]} (make services-stop)"; fi
  fi
  return $code
}

locked() {
  exec 9>"$SERVICES_DIR/.lock"
  flock 9 # one change at a time; the processes that are started close descriptor 9
  "$@"
  exec 9>&-
}

verb=${1:-help}
shift || true
if [ "$verb" = rabbitmq_release ]; then
  release=${1:?the name of a Debian release}
  shift
fi
services=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [[ " ${ALL[*]} " == *" $1 "* ]] || die "unknown service $1 (known: ${ALL[*]})"
  services+=("$1")
  shift
done
[ ${#services[@]} -gt 0 ] || services=("${ALL[@]}")

mkdir -p "$LOGS" "$RUN"
chmod 755 "$SERVICES_DIR" "$LOGS"
case $verb in
  up | start | stop | crash | wipe | purge)
    mode
    locked choose_ports
    locked "${verb/start/up}" "${services[@]}"
    ;;
  install) locked install "${services[@]}" ;;
  chromium) locked chromium_path ;;
  debezium) locked debezium_path ;;
  rabbitmq_release) locked rabbitmq_release "$release" ;;
  status)
    mode
    locked choose_ports
    status
    ;;
  env)
    locked choose_ports
    environment
    ;;
  run)
    [[ ${1:-} == -- && $# -gt 1 ]] || die "run [SERVICE...] -- COMMAND..."
    shift
    mode
    locked choose_ports
    locked up "${services[@]}"
    run "$@"
    ;;
  *)
    sed -n '2,/^set -euo/p' "${BASH_SOURCE[0]}" | sed '$d; s/^# \{0,1\}//'
    [ "$verb" = help ] || exit 2
    ;;
esac
