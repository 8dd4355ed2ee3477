package config

import "testing"

// Messages name a setting by the variable in which the user gave it, or would give it.
func TestVariables(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_DESTINATIONS=orders,audit", "OUTBOX_DESTINATION_ORDERS_TOPICS=order.*",
		"OUTBOX_TOPIC_FILE="+file(t, "x"),
		"OUTBOX_TABLE=shop.outbox",
		"OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_DESTINATION_ORDERS_PUBLISH_URL=nats://h",
		"OUTBOX_DESTINATION_ORDERS_NATS_CREDS_FILE="+file(t, "y"))
	orders, audit := &cfg.Destinations[0], &cfg.Destinations[1]
	for _, test := range []struct{ got, want string }{
		{cfg.scope.nameOf("TABLE"), "OUTBOX_TABLE"},
		{cfg.scope.nameOf("COLUMNS"), "OUTBOX_COLUMNS"},
		{cfg.scope.nameOf("DATABASE_DIRECT_URL"), "OUTBOX_DATABASE_DIRECT_URL"},
		{orders.scope.nameOf("PUBLISH_URL"), "OUTBOX_DESTINATION_ORDERS_PUBLISH_URL"},
		{audit.scope.nameOf("PUBLISH_URL"), "OUTBOX_PUBLISH_URL"},
		{orders.scope.nameOf("NATS_CREDS"), "OUTBOX_DESTINATION_ORDERS_NATS_CREDS_FILE"},
		{orders.scope.nameOf("TLS_CERT_FILE"), "OUTBOX_DESTINATION_ORDERS_TLS_CERT_FILE"},
		{audit.scope.nameOf("TLS_CERT"), "OUTBOX_DESTINATION_AUDIT_TLS_CERT"},
		{audit.scope.nameOf("TOPIC"), "OUTBOX_TOPIC_FILE"},
		{audit.scope.nameOf("TOPICS"), "OUTBOX_DESTINATION_AUDIT_TOPICS"},
		{load(t).Destinations[0].scope.nameOf("PUBLISH_URL"), "OUTBOX_PUBLISH_URL"},
		{load(t, "OUTBOX_PUBLISH_URL_FILE=", "OUTBOX_TOPIC=x").Destinations[0].scope.nameOf("TOPIC_FILE"), "OUTBOX_TOPIC"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}
