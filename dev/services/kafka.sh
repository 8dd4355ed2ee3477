# Apache Kafka: one KRaft node, assembled from the jars on Maven Central. Version 2 has ZooKeeper beside it: its own early
# KRaft gives no producer ids (InitProducerId: UNSUPPORTED_VERSION), which ZooKeeper's brokers do.

KAFKA_VERSION=${SERVICES_KAFKA_VERSION:-4.3.1} # the newest of which every artifact is published
LOG4J_VERSION=2.25.4                            # without a binding for slf4j Kafka logs nothing
KAFKA_HOME=$SERVICES_DIST/kafka-$KAFKA_VERSION

kafka_port() { echo "$KAFKA_PORT"; }
kafka_url() { echo "kafka://127.0.0.1:$KAFKA_PORT"; }

kafka_install() {
  java_install
  [ -f "$KAFKA_HOME/complete" ] || kafka_fetch
  if [[ $KAFKA_VERSION != 4.* ]]; then # their tools are elsewhere, and nobody needs them
    kafka_tool kafka-storage kafka.tools.StorageTool
    kafka_tool zookeeper-server org.apache.zookeeper.server.ZooKeeperServerMain
    kafka_server
    return
  fi
  kafka_tool kafka-topics org.apache.kafka.tools.TopicCommand
  kafka_tool kafka-configs kafka.admin.ConfigCommand
  kafka_tool kafka-get-offsets org.apache.kafka.tools.GetOffsetShell
  kafka_tool kafka-console-consumer org.apache.kafka.tools.consumer.ConsoleConsumer
  kafka_tool kafka-storage kafka.tools.StorageTool
  kafka_server
}

kafka_server() {
  kafka_command kafka-server server.xml "-Xms512m -Xmx1g -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true" kafka.Kafka
}

kafka_fetch() {
  say "fetching Kafka $KAFKA_VERSION (Maven, 55 MiB)"
  rm -rf "$KAFKA_HOME"
  case $KAFKA_VERSION in
    4.*) maven_install "org.apache.kafka:kafka_2.13:$KAFKA_VERSION" "org.apache.kafka:kafka-tools:$KAFKA_VERSION" \
      "org.apache.logging.log4j:log4j-slf4j-impl:$LOG4J_VERSION" "$KAFKA_HOME/libs" ;;
    # Versions 2 and 3 ask for slf4j 1.7, of which this binding has the version; it logs by java.util.logging.
    *) maven_install "org.apache.kafka:kafka_2.13:$KAFKA_VERSION" org.slf4j:slf4j-jdk14:1.7.36 "$KAFKA_HOME/libs" ;;
  esac
  kafka_log4j INFO OUT >"$KAFKA_HOME/server.xml"
  kafka_log4j WARN ERR >"$KAFKA_HOME/tool.xml"
  touch "$KAFKA_HOME/complete"
}

# kafka_log4j LEVEL STREAM prints a logging configuration that writes to OUT or ERR.
kafka_log4j() {
  cat <<XML
<Configuration status="WARN">
  <Appenders><Console name="out" target="SYSTEM_$2"><PatternLayout pattern="%d %p %m (%c{1})%n"/></Console></Appenders>
  <Loggers><Root level="$1"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
XML
}

# kafka_tool NAME CLASS writes a command of Kafka's own command line.
kafka_tool() { kafka_command "$1" tool.xml -Xmx256m "$2"; }

# kafka_command NAME LOGGING OPTIONS CLASS writes a command; KAFKA_JVM_OPTIONS replaces its options of Java.
kafka_command() {
  local file=$SERVICES_DIST/bin/$1
  mkdir -p "$SERVICES_DIST/bin"
  cat >"$file.$$" <<SH
#!/bin/sh
home=\$(cd "\$(dirname "\$0")/../kafka-$KAFKA_VERSION" && pwd) || exit 1
exec java \${KAFKA_JVM_OPTIONS:-$3} "-Dlog4j2.configurationFile=\$home/$2" -cp "\$home/libs/*" $4 "\$@"
SH
  chmod +x "$file.$$"
  mv "$file.$$" "$file" # at once: another set of services may be calling it
}

kafka_start() {
  local data=$SERVICES_DIR/kafka
  mkdir -p "$data"
  case $KAFKA_VERSION in 2.*) kafka_zookeeper ;; *) kafka_kraft ;; esac >"$data/server.properties"
  cat >>"$data/server.properties" <<PROPS
advertised.listeners=PLAINTEXT://127.0.0.1:${KAFKA_ADVERTISED_PORT:-$KAFKA_PORT}
log.dirs=$data/log
auto.create.topics.enable=false
# One node: the internal topics cannot have more than one replica.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
${SERVICES_KAFKA_PROPERTIES:-}
PROPS
  if [[ $KAFKA_VERSION == 2.* ]]; then
    spawn zookeeper "$SERVICES_DIST/bin/zookeeper-server" "$data/zookeeper.properties"
    until_ready zookeeper listening "$KAFKA_CONTROLLER_PORT"
  elif [ ! -f "$data/log/meta.properties" ]; then
    local tool=$SERVICES_DIST/bin/kafka-storage
    "$tool" format -t "$("$tool" random-uuid)" -c "$data/server.properties" >"$LOGS/kafka-format.log" 2>&1 ||
      die "kafka-storage format failed, see $LOGS/kafka-format.log"
  fi
  spawn kafka "$SERVICES_DIST/bin/kafka-server" "$data/server.properties"
  # Logged after the controller has unfenced the broker and its listeners accept requests.
  until_ready kafka grep -qE 'Kafka Server started|KafkaServer id=1\] started' "$LOGS/kafka.log"
  until_ready kafka listening "$KAFKA_PORT"
}

# kafka_kraft prints the settings of a node that is its own controller.
kafka_kraft() {
  cat <<PROPS
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$KAFKA_CONTROLLER_PORT
listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT,CONTROLLER://127.0.0.1:$KAFKA_CONTROLLER_PORT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
# After kill -9 a broker is let in again when its old session has expired.
broker.session.timeout.ms=$KAFKA_SESSION_MS
broker.heartbeat.interval.ms=$((KAFKA_SESSION_MS / 4))
PROPS
}

# kafka_zookeeper prints the settings of a node with ZooKeeper, and writes those of ZooKeeper.
kafka_zookeeper() {
  cat >"$data/zookeeper.properties" <<PROPS
dataDir=$data/zookeeper
clientPort=$KAFKA_CONTROLLER_PORT
clientPortAddress=127.0.0.1
admin.enableServer=false
PROPS
  cat <<PROPS
broker.id=1
zookeeper.connect=127.0.0.1:$KAFKA_CONTROLLER_PORT
zookeeper.session.timeout.ms=$((KAFKA_SESSION_MS * 3))
listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT
PROPS
}

kafka_stop() {
  terminate kafka TERM
  terminate zookeeper TERM
}
