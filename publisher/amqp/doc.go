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
// with nothing else on the channel. The limit of a message is that of its route; it is 0 for a payload above a megabyte
// or half of one that was refused, and for a message that has been on two channels when they were closed. What is
// held becomes ready with any answer.
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
//
// # What always holds
//
//   - Of a key, at most one message is sent and not answered, or kept; the others are not sent before it is accepted.
//   - A message is settled by its own confirm or return, or by the end of its channel while it is alone there. The end
//     of a channel or connection under several messages settles none of them.
//   - A negative confirm counts only while its channel is open, and a confirm only after the returns that came before
//     it.
//   - A call never sends more unanswered messages on a route than the limit of the route, nor more on a channel than
//     the window, kept ones included.
//   - Nothing is sent while the broker blocks publishing, and nothing in the goroutine of a call waits for the socket.
//
// # The files
//
// In the order in which a message passes them:
//
//   - publisher.go, batch.go: the call, the states of its messages, and which one goes next.
//   - routes.go: how many copies a try of a route may leave behind.
//   - properties.go: the message as AMQP carries it, and what AMQP cannot carry.
//   - channel.go, pool.go: channels in confirm mode, and the few that a connection may have.
//   - connection.go, socket.go: the connection, alarms, and the writing below the client library.
//   - settle.go, answers.go: confirms and returns, and what they mean for a message.
//   - closed.go: what it means that the broker has closed a channel or the connection.
//   - kept.go: confirms that come after their call.
//   - dial.go, address.go, login.go, token.go, renew.go, explain.go: how a connection is made and renewed, and why it
//     fails.
//   - examine.go, examinemanagement.go: what the command doctor needs.
//
// # What the broker does
//
// Measured with RabbitMQ 3.10.8 and amqp091-go 1.16.0, persistent messages of 512 bytes:
//
//   - An error such as a missing exchange (404), a missing right (403) or a payload above max_message_size (406) closes
//     the channel. The library then reports every message in flight on it as not confirmed: ten of ten, of which five
//     went to a queue in good order. The loss of a connection did the same to 2,899 of 3,000. Hence a negative confirm
//     on a channel that has ended says nothing.
//   - A mandatory message that no queue takes is returned and then confirmed. A client that looks at confirms alone
//     takes it for published.
//   - One channel more than the user or the node may have ends the connection (530, NOT_ALLOWED) with all that is on
//     the wire. An earlier version that opened its second channel later lost 162 connections in 57 seconds, and sent
//     2,000 rows as 2,672 messages.
//   - A routing key or any other short string above 255 bytes makes the library itself end the connection.
//   - During a memory or disk alarm, the broker reads nothing from connections that publish. Messages that are given up
//     then arrive after the alarm: 166 to 268 copies for each alarm, before confirms were kept.
//   - A refused login is answered after three silent seconds, unless the client says that it understands the answer.
//   - With a window of 100 or more, one channel is as fast as four, because the broker is the limit: 25 to 30 µs of
//     its processor time for each message of a quorum queue, 60 to 75 µs in a classic one.
//
// # The client library
//
// Its recovery (Config.Recovery) is not used: it waits five seconds before the first of its attempts, and gives up
// after five of them. Context arguments are looked at before a write only, so what must end in time runs beside the
// call (see connection.ask) or below the library (see socket). Each message costs 34 allocations of the library and two
// of this package.
package amqp
