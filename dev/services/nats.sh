# NATS with JetStream on files: the server of dev/tools/nats-server, as plain process.

nats_port() { echo "$NATS_PORT"; }
nats_url() { echo "nats://127.0.0.1:$NATS_PORT"; }

# nats_server prints the path of the server.
nats_server() {
  if [ -n "${SERVICES_NATS_VERSION:-}" ]; then echo "$SERVICES_DIST/bin/nats-server"; else echo "$CHECKOUT/bin/nats-server"; fi
}

nats_install() {
  if [ -n "${SERVICES_NATS_VERSION:-}" ]; then
    [ -x "$(nats_server)" ] && return
    say "building nats-server $SERVICES_NATS_VERSION"
    GOFLAGS= GOBIN=$SERVICES_DIST/bin go install "github.com/nats-io/nats-server/v2@v$SERVICES_NATS_VERSION" >"$LOGS/nats-build.log" 2>&1 9>&- </dev/null ||
      die "building nats-server failed, see $LOGS/nats-build.log"
    return
  fi
  [ -x "$CHECKOUT/bin/nats-server" ] || say "building nats-server"
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$CHECKOUT" bin/nats-server </dev/null >"$LOGS/nats-build.log" 2>&1 9>&- ||
    die "building nats-server failed, see $LOGS/nats-build.log"
}

nats_start() {
  local data=$SERVICES_DIR/nats
  mkdir -p "$data"
  cat >"$data/nats.conf" <<CONF
server_name: outbox
listen: 127.0.0.1:$NATS_PORT
http: 127.0.0.1:$NATS_HTTP_PORT
max_payload: 1MB
jetstream { store_dir: "$data/store", max_memory_store: 1GB, max_file_store: 40GB }
${SERVICES_NATS_CONF:-}
CONF
  spawn nats "$(nats_server)" -c "$data/nats.conf"
  until_ready nats nats_healthy
}

# /healthz says ok only when JetStream and its streams have been recovered.
nats_healthy() {
  local reply
  exec 3<>"/dev/tcp/127.0.0.1/$NATS_HTTP_PORT" || return 1
  printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3
  reply=$(cat <&3)
  exec 3>&-
  [[ $reply == *'"status":"ok"'* ]]
}

nats_stop() { terminate nats TERM; }
