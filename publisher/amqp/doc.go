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
//	           its route or its size has to be tried
//	   ready ------------------------------------------> alone
//	   |   ^ \                                           |
//	   |   |  \ its route has its share in flight        | nothing else is on the channel
//	   |   |   `----> aside (until an answer)            |
//	   |   | the next message of an accepted one's key   |
//	   v   |                                             v
//	 in flight ------------------------------------> in flight, as a trial
//	   |  |  |                                           |
//	   |  |  | channel closed: alone, one by one         | channel closed: this message is the reason
//	   |  |  | no answer while others are answered:      v
//	   |  |  | kept, and answered Unavailable          answered
//	   |  |  `-------------------------------------> kept ----------> answered by a later call, or sent again
//	   |  | connection or call ended                   after the publish timeout, or with its channel
//	   v  v
//	answered
//
// Three things are remembered from call to call:
//
//   - routes: what a try on a route may leave behind. On an exchange, a queue that rejects does not keep other queues
//     from taking the message; a missing right closes the channel under other messages; a queue whose leader is on a
//     silent node blocks its channel. Such routes have a limit of unanswered messages: none beside others at first,
//     then one, and one more with each that is accepted.
//   - kept: confirms that the broker owes. If a queue confirms nothing, if the broker blocks publishing, or if it has
//     fallen silent, the message is on its way all the same. Its next try waits for the confirm instead of sending a
//     copy, until the publish timeout of the call that sent it; during an alarm, for as long as the connection lives.
//   - largest: the largest payload that the broker has accepted on the connection. Larger ones go alone.
//
// A silent connection is not closed but retired: new calls use another one, and its confirms are still kept. If a
// channel was closed under messages, or a kept confirm was given up, the broker may have what is sent again: the answer
// is then publisher.Republished.
package amqp
