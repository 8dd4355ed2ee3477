package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// newKafkaNode starts a separate broker for a test. advertise returns the address by which clients find it.
func newKafkaNode(t testing.TB, advertise func(address string) string) *kafkaBroker {
	t.Helper()
	ports := freePorts(t, 2)
	address, controller := fmt.Sprint("127.0.0.1:", ports[0]), fmt.Sprint("127.0.0.1:", ports[1])
	n := newNode(t, "Kafka")
	properties := n.write("server.properties", strings.Join([]string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@" + controller,
		"controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://" + address + ",CONTROLLER://" + controller,
		"advertised.listeners=PLAINTEXT://" + advertise(address),
		"log.dirs=" + n.dir + "/data", "auto.create.topics.enable=false",
	}, "\n"))
	n.command = []string{
		"sh", "-c", `"$0" format -t MkU3OEVBNTcwNTJENDM2Qg -c "$2" && exec "$1" "$2"`, installed(t, "kafka", "kafka-storage"),
		installed(t, "kafka", "kafka-server"), properties,
	}
	n.env = []string{"KAFKA_JVM_OPTIONS=-Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
	n.start()
	n.awaitLog("Kafka Server started")
	return newKafka(t, "kafka://"+address)
}
