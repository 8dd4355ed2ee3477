// Package inspect holds what the examinations of all brokers share.
package inspect

// Names of checks that several brokers have, as scripts read them.
const (
	Reach          = "reach"
	Authentication = "authentication"
	Version        = "version"
	Topic          = "topic"
	Permission     = "permission"
	Replication    = "replication"
	Limits         = "limits"
	Size           = "message_size"
)
