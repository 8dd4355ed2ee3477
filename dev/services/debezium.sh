# Debezium's connector for PostgreSQL within Kafka Connect, for the test of the migration. Nothing is started.

DEBEZIUM_VERSION=3.2.0.Final
DEBEZIUM_CONNECT=4.0.0 # the version of Kafka Connect that it is made for
DEBEZIUM_HOME=$SERVICES_DIST/debezium-$DEBEZIUM_VERSION

# debezium_path prints the directory of the archives, and obtains them from Maven (40 MB) if there is none.
debezium_path() {
  java_install
  if [ ! -f "$DEBEZIUM_HOME/complete" ]; then
    say "fetching Debezium $DEBEZIUM_VERSION (Maven, 40 MB)"
    rm -rf "$DEBEZIUM_HOME"
    maven_install "io.debezium:debezium-connector-postgres:$DEBEZIUM_VERSION" "org.apache.kafka:connect-runtime:$DEBEZIUM_CONNECT" \
      org.slf4j:slf4j-simple:1.7.36 "$DEBEZIUM_HOME"
    touch "$DEBEZIUM_HOME/complete"
  fi
  echo "$DEBEZIUM_HOME"
}
