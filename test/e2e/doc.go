// Package e2e holds the end-to-end tests: the relay's real binary between a real PostgreSQL and real
// brokers, through crashes, restarts and outages. Run them with `make e2e`.
package e2e
