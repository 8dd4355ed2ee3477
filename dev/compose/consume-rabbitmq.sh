#!/bin/sh
# Takes the messages of the queue orders.placed through RabbitMQ's management interface, and prints one a line.
# BusyBox's wget is all that it needs.
url=${1:-http://guest:guest@rabbitmq:15672}/api/queues/%2F/orders.placed/get
ask='{"count": 100, "ackmode": "ack_requeue_false", "encoding": "auto"}'
while sleep 1; do
  wget -q -O - --header 'Content-Type: application/json' --post-data "$ask" "$url" | sed 's/},{"payload_bytes"/},\n{"payload_bytes"/g; /^\[\]$/d'
done
