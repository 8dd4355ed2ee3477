/*
Package internal explains how the relay works, for those who change it. Its subfolders are the engine and its tools.

# The life of a message

	        insert + commit                      SELECT, no lock
	app ───────────────────▶ pending ─────────────────────────────▶ in flight
	                            ▲                                      │ queue of its key
	             restart, crash │                                      ▼
	            (nothing of a row in flight is written)            on the wire
	                                                                   │ the broker's answer
	     ┌───────────────┬────────────────────┬────────────────────────┼──────────────────┐
	     ▼               ▼                    ▼                        ▼                  ▼
	  accepted        refused            permanent            topology, unavailable    ambiguous
	     │               │                    │                        │                  │
	UPDATE relayed_at  UPDATE attempt+1   UPDATE failed_at     nothing is written     nothing is written;
	     │               │ waits               │                waits for what the     published again
	     ▼               ▼ (backoff)           ▼                answer names           with the same id
	  relayed         pending               failed

# The parts

Each destination has a loop and an engine of its own, with its own reads, memory and workers, so that one destination
takes nothing from another. The loops of a process share the ownership of shards, hints, the connection pool and the
settlement (engines). Imports point down this list:

  - Package relay has the public API, the parts that the process shares, and the loops. A loop is one goroutine. It
    asks its engine what is to be read, published and written, has it done by reads, workers and the settlement,
    and tells the engine the results (loop, reads, worker).
  - Package settle writes what became of rows: it marks accepted rows, many in one statement, and writes refusals, with
    two statements at a time at most for each set of columns. Writes of several destinations to the same columns share
    statements. Where destinations have columns of their own, marks of the same row that lie there at the same time
    share a statement, too. A row is never in two statements at once.
  - Package engine decides. It owns the rows in flight and the keys in trouble of one destination, and has no I/O, no
    goroutine and no lock. Its own documentation says how it keeps the order of a key, and what a loop owes it.
  - Packages measure and retry count what happens, and time retries.

# How rows come in

A key has one source of rows at a time. While nothing is wrong with it, its rows come from the tail: pages of pending
rows in table order, and at each poll a first page that also has what was committed late. When a row of a key cannot
go, because it was refused, its topic is missing, its partition is down, or it may have to go before one that is
queued, then the key is closed: what the tail brings of it is dropped, and reads of its own bring its rows from its
first pending one until none is left. Then it is open again. A sweep over all pending rows, without their contents,
finds what both have missed.

There are two reads at a time at most: one of keys, and beside it one of the tail, the sweep or the list of failed
rows. Rows whose available_at has come have a tail of their own over their own index. Where rows have priorities, or
order values that say nothing, a first page begins at the very beginning.

A key that waits, for a topic or a partition to come back (a hold), for a failed row of it to be retried
(OUTBOX_ON_FAILED=block) or for room, is remembered by a hash alone. One key tries a hold now and then.

# Invariants

 1. A row is in flight once, from its read until its mark has been committed, and no longer brought by reads that began
    before that.
 2. A key is in one call, and its rows stand there in table order. A publisher accepts a prefix of what it was given
    of each key.
 3. Nothing passes a closed key: its rows come from one statement from its beginning, whose snapshot has everything
    that was committed before.
 4. Marks follow answers. relayed_at is written for accepted rows only, and for the version of the row that was
    published: a row that was changed meanwhile is published as it is now. A refusal is written before the key goes
    on.
 5. Only owned rows go. Nothing is taken from a read that began before a shard was gained, and a shard is released
    when no loop has any of its rows in flight, except rows that cannot be written. The shard's next owner reads from
    the very beginning.
 6. Late commits keep their place. A younger row of a key is taken only from a read that could also see every older
    row that was committed before the younger one was inserted, or with it. An older row that is committed after a
    younger one was read goes after it, and is counted. Order values drawn more than a second (times: five seconds)
    before their transaction's first write are found by the sweep.
 7. Memory is bounded. Rows and bytes in flight stop the reads, a row larger than MaxRowBytes is never read, and what is
    remembered of keys and holds is bounded in number. Each statement has a bound in rows and bytes.

# Where to begin

  - A row does not go: its key is closed or waits, for one of the causes in engine/holds, and rows_held counts it. If
    none does, nobody knows the row, and the sweep has to find it (engine/sweep, engine/tail).
  - A row was published twice: its answer was lost (engine/answer), its mark could not be written (settle,
    engine/unwritten), or a read brought it after it was settled (gone, in engine/row).
  - A younger row of a key went first: a row was taken from a read that could not see every older one. All of these
    decisions are in engine/tail (page), engine/admit and engine/keysread (drain).
  - A shard is not released: a row of it is in flight in one of the loops (engine.Own, and own in engines).
  - Rows come late: how long the tail rests is in engine/pace, what may be read in engine/room, and how many rows a
    statement writes in settle/write.

After a change of a rule, make schedules runs random schedules with new seeds (TestSchedules in package engine, and
TestRandomSchedules in package relay), and prints the seeds of those that fail. SIMULATION_SEED repeats one: of the
engine, together with SIMULATION_RUNS=1, the log says what happens. A new rule gets a mutant in test/mutants, which
drops the rule and names the test that notices.

# What happens at each failure

  - The process dies: rows in flight are pending in the table. Rows that were accepted and not yet marked are
    published again with the same id, at most as many as may be in flight.
  - A connection to the database dies: reads begin again after a pause. Accepted rows are known in memory. They are
    marked as soon as the database answers, and not published again.
  - A firewall forgets connections, so that what is sent on them is lost without an error: the loss of the control
    connection is noticed within the time to live, and no statement is sent on the pool's connections any more. What was
    sent on a lost one ends when the operating system finds that nothing is acknowledged; where a proxy on the way
    acknowledges in the server's place, when the statement's time is over, after half a minute at most: then the others
    are given up, too. The listener's connection has to answer within half of the time to live.
  - Only this replica cannot publish to one of its destinations (its password, its network): it says so in its
    membership, and the others no longer count it. After three times the time to live it gives them its shards, as on
    a clean stop. Until then its other destinations go on.
  - An application keeps rows locked: only the marks and refusals of these rows wait, in memory. A mark waits for a
    lock for a moment; after that, the free rows are marked and the locked ones are tried again (unwritten). A clean
    stop waits for them. A shard that is to be given back waits for three times the time to live. The end of a term,
    when the control connection was lost, does not wait: the rows are then published again.
  - The table changes, or replicas are configured differently: replicas that would place a row in another shard or
    order never own shards at the same time (package owner). Each replica looks at the catalogue now and then and
    reopens a table that has changed (follow).
  - A read needs more time than it has: it rests in proportion, the other reads go first, and it is repeated with twice
    the time (reads). A sweep has little time at first.
  - The database does not mark rows, with an error or by doing nothing: they stay in flight, and some of them are
    tried again every ten seconds (unwritten). What a statement cannot write in its time is written in smaller
    statements (divide). From then on, and for the rows that the last owner of a shard may have left in this state or
    that a sweep finds, since a trigger may take a mark back, marks are rehearsed in a transaction that is rolled back:
    what the database would not mark is not published (rehearsal). So neither a restart nor a sweep publishes a row
    again because its mark cannot be written.
  - The table changes so that marks and refusals can never be written as they are phrased: the table is reopened, and
    the rows are published again.
  - The database fails over: all sessions end, and the ownership ends with them. The next control connection is made to
    the new primary, and rows are read only over connections that reach the same server (owner.Witness).
  - The owner is cut off or paused: it stops trusting its locks before the server gives them away, and from then on
    nothing is handed to a publisher. Marks may still be written: they are guarded.
  - The outcome of a publish is unknown: the same messages go first when the broker is back. A row that leaves the
    outcome unknown again and again is tried alone. If other rows are accepted meanwhile, this row is the culprit, and
    it is refused.
  - A panic while a row is made into a message: it is that row's error, and the row fails. A panic in a publisher: the
    outcome of what it was given is unknown, as above, and the publisher stays in use, so that the row that causes the
    panic is found and refused (worker). A panic in a goroutine that a publisher started still ends the process.
  - A broker takes a row for a message that it already holds, by its id: after a publish without an answer, and for
    rows that the previous owner may have sent, this is an acceptance. For any other row it means that two rows have
    the same id, and one of them is lost: the row is marked, counted and reported (duplicate).
  - A row commits late, with a place before rows that were already relayed: the next first page or the sweep finds it.
    If a younger row of its key was already read, the order cannot be restored; the row is delivered after it and
    counted.
  - SIGTERM: nothing new is read or published. What is on the wire is answered and settled, and then the shards are
    released. After a clean stop no row is in flight.
*/
package internal
