/*
Package engine decides which pending rows of one destination are read, when they are published, and what becomes of
them. It makes no reads, publishes and writes, starts no goroutine and never blocks: one goroutine asks it what is
to be done, has it done, and tells it the results.

# One key, one source

	                       a row cannot go, or may come before a queued one
	   open ───────────────────────────────────────────────────────────────────────▶ closed
	its rows come from                                                          its rows come from reads of
	the tail, and only                                                          its own, and only from these
	from there         ◀───────────────────────────────────────────────────────
	                       a read of its own has brought everything that is left of it

A key that is in trouble is closed and read by itself, from its first pending row, in one statement. What the tail
reads of it meanwhile is dropped, and nothing is remembered of what was dropped, except that it was. So no two reads
ever bring rows of the same key, and none has to know what another one has passed over.

# A row's way

	tail ─▶ admit ─▶ take ─▶ the key's queue ─▶ Batch ─▶ publisher ─▶ Answers ─▶ accepted ─▶ Writes ─▶ Written: landed
	                               ▲              │                      │
	                               │              │                      ├─▶ refused: writing ─▶ Written ─▶ resting
	                               │              │                      ├─▶ held: waiting ─▶ its hold ends ─▶ resting
	                               │              └─▶ closed             └─▶ unknown: resting
	               read of keys ◀── resting, until a time ◀───────────────────────────────────────────────┘

A closed key is resting (until a time; then its first rows are read), reading, draining (some of its first rows are
queued; then the next are read), writing (the refusal of its first row is written), or waiting. Keys that wait for a
hold, for a failed row of theirs (blocked) or for room are remembered by their hash alone.

# What keeps the order

 1. A row is in flight once: from its read until its write is known to be committed. A read that began before that
    may still bring it, so it is known until such reads have ended (gone).
 2. A key has one call at a time, and a publisher accepts a prefix of what it was given of the key. The key's queue
    is in table order: a row that comes before a queued one, or may, closes the key, and all of its rows are read in
    order.
 3. Of an open key, every row at or before the cursor that the tail's snapshot sees is in flight or settled.
 4. Of a closed key nothing is queued but what reads of its own have brought. It opens only when such a read has
    brought everything, and the tail has dropped no row of it since the key was read from its beginning.
 5. A refused row keeps its key closed until the refusal is written, also if its shard is lost and comes back
    meanwhile.
 6. Nothing is taken from a read of the tail that began before the tail's last new beginning (shards gained, memory
    full).
 7. What is in flight, and what is remembered of keys and holds, is bounded. Keys that are tried in vain leave a
    quarter of the room to others, and give their places up while others wait for room. If not even the hashes of
    the keys that wait fit any more, the tail stops, and starts again when a tenth of the room is free.

Why this is enough: writers of a key are serialised, so whoever sees a row of a key sees all before it. A tail's
first page is one statement. What precedes a row that it brings was seen by the last first page and was read, or is
brought with it. A further page is taken only up to the first row that the first page may not have seen. A read of a
key is one statement from its beginning, or goes on with rows that such a statement saw. And a key opens at a snapshot
of which everything is in flight.

What the tail misses all the same is found by the sweep, which goes over all pending rows now and then, reads no
contents, and closes the key of each row that nobody knows: order values drawn long before their transaction's first
write, a sequence that was set back, rows that were made pending again, or moved to another key, by hand.

# The files, in the order in which a row meets them

	setup, engine     what an engine is made from; all that it knows; shards that come and go
	reads, room       which read is made next, and how much it may bring
	tail, admit       the tail's pages, and which of their rows are taken
	row, keys         a row in flight; the states of a key, and the ways from one to another
	keysread          reads of closed keys, and when a key opens
	batch, limiter    what a lane publishes now, and how fast
	answer            what becomes of a key with the broker's answers
	holds, waits      what is in trouble at the broker, and the keys that wait for it
	write, unwritten  what is written, what became of that, and rows that cannot be written
	rehearsal         marks that are tried before a row is published
	sweep, blocked    rows that nobody knows; keys with a failed row
	pace              how long the tail rests, and whether writers ring
	snapshot, lines   what others see of the engine; the log

# What the user owes the engine

 1. After each event below, it asks again: [Engine.Own] with the shards to relay; [Engine.Next] until it is nil;
    [Engine.Batch] for each idle lane, only while the ownership is trusted; [Engine.Writes]; and then sleeps until
    [Engine.Wake]. Its times are those of [time.Now], with the monotonic clock in them.
 2. A read is made once, in a transaction of its own, and given back with [Engine.Taken], whether it failed or not.
 3. A batch is handed to a publisher in one call and given back with [Engine.Answers]: one answer for each row,
    accepted rows of a key before the others. The user may hand over less, and answer that the rest was not attempted.
 4. What is to be written is written until that has succeeded, in one transaction or several, and then given back
    with [Engine.Written]. A mark is for the version of the row that was read. If the process ends before, the row
    is published again. An outcome that can never be written is not given back: the engine is given up then, and the
    table opened again.
 5. A shard is released only when Own has returned it. Its next owner begins to read after that.
*/
package engine
