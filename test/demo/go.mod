module github.com/outbox-relay/outbox-relay/test/demo

go 1.26.0

toolchain go1.26.8

require (
	github.com/jackc/pgx/v5 v5.12.0
	github.com/nats-io/nats-server/v2 v2.15.2
	golang.org/x/sync v0.25.0
)

require (
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/rabbitmq/amqp091-go v1.16.0 // indirect
	github.com/segmentio/kafka-go v0.4.51 // indirect
)

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nkeys v0.4.17 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/outbox-relay/outbox-relay v0.0.0
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/outbox-relay/outbox-relay => ../../
