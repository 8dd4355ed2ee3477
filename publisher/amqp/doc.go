// Package amqp publishes to RabbitMQ over AMQP 0-9-1. Every message is persistent and, by default, mandatory. Messages
// go out on channels in confirm mode, in windows of unanswered messages. No two messages of a window share an ordering
// key.
//
// One connection carries everything. Its channels are opened before the first message goes out, because RabbitMQ
// answers one channel too many by closing the connection with all that is on the wire (see connection.fill). Each call
// of Publish takes a channel for itself, since an error closes a channel under all of its messages.
//
// A message goes through these states within a call, and some confirms outlive their call:
//
//	         within its limit                 confirmed or returned, or the call or the connection ended,
//	ready ---------------------> in flight ------------------------------------------------------------> answered
//	 ^ |                          ^  |  |     or alone on a channel that was closed: it is the reason
//	 | | over its limit    alone  |  |  |
//	 | v                          |  |  | no answer while others are answered
//	held -------------------------'  |  `---> kept ---> answered by a later call, or sent again after the
//	 ^                               |                  publish timeout, or with its channel
//	 `-------------------------------'
//	   channel closed under several messages
//
// The limit is the number of unanswered messages that a call may have on one route. With 0, the message is sent alone,
// with nothing else on the channel. The limit of a message is that of its route; it is 0 for a payload larger than any
// that the broker has accepted on the connection, and for a message that has been on two channels when they were
// closed. What is held becomes ready with any answer.
//
// Two things are remembered from call to call:
//
//   - routes: the limit of each route that was in trouble, until ten minutes after the last trouble. On an exchange, a
//     queue that rejects does not keep other queues from taking the message; a missing right closes the channel under
//     other messages; a queue whose leader is on a silent node blocks its channel. The limit is 0 or 1 at first, and
//     rises by one with each message that is accepted.
//   - kept: confirms that the broker owes. If a queue confirms nothing, if the broker blocks publishing, or if it has
//     fallen silent, the message is on its way all the same. Its next try waits for the confirm instead of sending a
//     copy, until the publish timeout of the call that sent it; during an alarm, for as long as the connection lives.
//
// A silent connection is not closed but retired (see connect.Keeper): new calls use another one, and its confirms are
// still kept. If a channel was closed under messages, or a kept confirm was given up, the broker may have what is sent
// again: the answer is then publisher.Republished.
package amqp
