#!/bin/sh
# A sample application: it creates its tables and then takes one order a second.
set -eu
cd "$(dirname "$0")"

export PGOPTIONS='-c client_min_messages=warning'
if [ "$(psql -qAtc "select to_regclass('orders') is null")" = t ]; then
  { cat orders.sql && outbox-relay schema; } | psql -q -v ON_ERROR_STOP=1 --single-transaction
fi
while sleep 1; do
  psql -q -v ON_ERROR_STOP=1 -f place-order.sql || echo "no order now" >&2
done
