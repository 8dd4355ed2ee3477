#!/usr/bin/env bash
# versions.sh [SERVICE...] - the publishers' conformance suites or the table's tests, and a small part of the end-to-end tests, with
# other versions of the servers than the tests' own: PostgreSQL 14, 16 and 17, Kafka 2.4, 2.8 and 3.9, NATS 2.10 and the newest,
# RabbitMQ 3.10 and 4.0. It runs within `dev/services.sh run` (make versions), takes each version as a native process, and wipes it
# at the end. SERVICE is postgres, kafka, nats or rabbitmq; none means all.
set -euo pipefail

POSTGRES=(14.20.0 16.11.0 17.7.0) # 15 or what the distribution has, and 18, are the tests' own
KAFKA=(2.4.1 2.8.2 3.9.1)
NATS=(2.10.27 "$(go list -m -f '{{.Version}}' github.com/nats-io/nats-server/v2@latest | tr -d v)")
RABBITMQ=(bookworm trixie) # Debian releases

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SERVICES_MODE=native SERVICES_TIMEOUT=300
failed=()
E2E='TestDrain|TestBadRows|TestMissingTopic|TestStop'

# with SERVICE VARIABLE DIR NAME [SETTING...] runs the suite of a service's publisher with another server, and the end-to-end tests
# with it beside the other brokers of the tests.
with() {
  local service=$1 variable=$2 dir=$3 name=$4 package=$1 suite='^(TestSuite|TestPublisher)$' tests=$E2E code=0 here management
  shift 4
  [ "$service" != rabbitmq ] || package=amqp tests+='|TestStreams'
  echo "== $service $name"
  # Otherwise the environment of the tests' own server would be used.
  local own=(env -u "$variable" -u TEST_AMQP_MANAGEMENT_URL SERVICES_DIR="$dir" "$@" dev/services.sh)
  "${own[@]}" up "$service" || { failed+=("$service $name: start"); return; }
  # The store of version 4, in place of Mnesia.
  [ "$name" != "of Debian trixie" ] || "$dir/bin/rabbitmqctl" enable_feature_flag --opt-in khepri_db || failed+=("$service $name: Khepri")
  here=$("${own[@]}" env)
  url=$(sed -n "s/^export $variable='\(.*\)'/\1/p" <<<"$here")
  management=$(sed -n "s/^export TEST_AMQP_MANAGEMENT_URL='\(.*\)'/\1/p" <<<"$here") # of RabbitMQ only
  env "$variable=$url" go test -count=1 -run "$suite" "./publisher/$package" || failed+=("$service $name: suite")
  (cd test/e2e && env "$variable=$url" ${management:+"TEST_AMQP_MANAGEMENT_URL=$management"} go test -count=1 -run "^($tests)\$" .) ||
    failed+=("$service $name: end to end")
  "${own[@]}" wipe "$service" || code=$?
  return $code
}

# database DIR VERSION runs what depends on PostgreSQL.
database() {
  local own=(env -u TEST_DATABASE_URL_OTHER SERVICES_DIR="$1" SERVICES_POSTGRES_VERSION="$2" dev/services.sh) url
  echo "== postgres $2"
  "${own[@]}" up postgres18 || { failed+=("postgres $2: start"); return; }
  url=$("${own[@]}" env | sed -n "s/^export TEST_DATABASE_URL_OTHER='\(.*\)'/\1/p")
  TEST_DATABASE_URL=$url go test -count=1 ./internal/outbox ./internal/owner ./internal/operate ||
    failed+=("postgres $2: table")
  (cd test/e2e && TEST_DATABASE_URL=$url go test -count=1 -run '^(TestStop|TestShapes)$' .) ||
    failed+=("postgres $2: end to end")
  "${own[@]}" wipe postgres18
}

# among SERVICE reports whether it was asked for.
among() { [[ -z $wanted || " $wanted " == *" $1 "* ]]; }

wanted=$*
data=$(mktemp -d)
chmod 755 "$data" # PostgreSQL runs as a user of its own
trap 'rm -rf "$data"' EXIT
for version in "${POSTGRES[@]}"; do
  ! among postgres || database "$data/postgres-$version" "$version"
done
for version in "${KAFKA[@]}"; do
  ! among kafka || with kafka TEST_KAFKA_URL "$data/kafka-$version" "$version" SERVICES_KAFKA_VERSION="$version"
done
for version in "${NATS[@]}"; do
  ! among nats || with nats TEST_NATS_URL "$data/nats-$version" "$version" SERVICES_NATS_VERSION="$version"
done
for release in "${RABBITMQ[@]}"; do
  among rabbitmq || break
  root=$(dev/services.sh rabbitmq_release "$release")
  with rabbitmq TEST_AMQP_URL "$root/var/lib/outbox" "of Debian $release" SERVICES_RABBITMQ_ROOT="$root"
done
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[@]}"; exit 1; }
echo "all versions passed"
