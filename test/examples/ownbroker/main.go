// Command relay-to-file is outbox-relay with a broker of its own: OUTBOX_PUBLISH_URL=file:/var/lib/messages appends
// each message to that file. Commands, settings and metrics are those of outbox-relay.
package main

import "github.com/outbox-relay/outbox-relay/cli"

func main() { cli.Main(cli.Scheme("file", newFile)) }
