/*
Package relay moves the rows of an outbox to a broker: each at least once, in order for each key.

# The life of a message

	        insert + commit                      SELECT, no lock
	app ───────────────────▶ pending ─────────────────────────────▶ in flight
	                            ▲                                      │ queue of its key's worker
	             restart, crash │                                      ▼
	            (nothing of a row in flight is written)            on the wire
	                                                                   │ the broker's answer
	     ┌───────────────┬────────────────────┬────────────────────────┼──────────────────┐
	     ▼               ▼                    ▼                        ▼                  ▼
	  accepted        refused            permanent            topology, unavailable    ambiguous
	     │               │                    │                        │                  │
	UPDATE relayed_at  UPDATE attempt+1   UPDATE failed_at     nothing is written     nothing is written;
	     │               │ waits               │                waits for its topic or   published again
	     ▼               ▼ (backoff)           ▼                its destination          with the same id
	  relayed         pending               failed

The parts, each in a file of its own:

  - feed decides what to read next: on from a cursor, recent rows again for late commits, and a sweep from
    the beginning for whatever else was missed (and when: pace and armed).
  - dispatch owns the state. It takes rows in table order and queues them for the worker of their key
    (admit), and decides from the answers what is settled, blocked, held or published again (answer,
    block, hold), what follows when that is written (written), and which keys are read again (reread).
  - reads shares the one reader: the walk and the re-reads of blocked keys take turns, and after a re-read there is
    none for as long as that one took. While a key's head cannot go, only its first row is asked for.
  - a worker publishes one batch at a time. A key always has the same worker.
  - two settlers mark what was accepted, many rows in a statement, and write refusals.
  - failures knows which keys have a failed row, where such a row blocks its key.
  - shards follows what this replica owns: package owner says which shards come and go.
  - loop is the goroutine that owns feed and dispatch, and hands work to the others (engine); relay looks
    for the table and runs an engine for as long as this replica owns anything.

# Invariants

 1. A row is in flight at most once. Its identity (its id, and its place too if ids are not unique) stays in the set of rows in flight from the read until its mark
    has been committed, and longer if a read is under way that began before the commit and could still
    return it (dispatch.gone). So nothing is published twice because the table was read at a bad moment.
 2. A key's rows are on the wire in one call at most, in table order. They have one worker and one queue,
    the worker has one batch at a time, and a publisher accepts of each key a prefix of what it was given.
 3. Behind a row that was not accepted nothing of its key is published. The key is blocked: what was taken
    of it becomes void (block.generation) and is dropped before the next batch or re-read begins. When its
    time has come it is read again from its head, and it is only free when all that this read returned has
    been accepted and no row of it was dropped since the read began (block.dropped). A row that the
    re-read does not return was committed later and will be found by the walk.
 4. Where a failed row blocks its key (OUTBOX_ON_FAILED=block), no row of a shard is taken before the shard's
    failed rows have been read, and a refusal that fails a row blocks the key before the next row of it is taken.
    A key is free when a read of all failed rows that began later finds none of it (failures); then the walk begins
    anew, to meet a row that was retried before its key's younger ones. For some time after shards came, when their
    last owner may still write a refusal, pending rows are taken only when the failed rows have been read after them.
 5. relayed_at is written only for accepted rows, and a refusal only while attempt, relayed_at and
    failed_at are as they were read. A refusal is written before its key goes on.
 6. What costs no attempt writes nothing. While a destination is held, one real batch at a time tries it: the first rows of a few keys.
 7. Rows of a shard are taken only from reads that began when it was ours, and while it has been ours ever
    since (shards.reading). A shard is given back only when nothing of it is in flight: what waited in
    queues is dropped, what was on the wire is answered, what was accepted is marked. Only what cannot be written is
    forgotten: a row that the database will not mark at once, one that somebody keeps locked after a while
    (shards.letGo). Its next owner walks from the very beginning, so that it begins each key at its true head.
 8. A younger row of a key is taken only from reads that can also see every older one that was committed before it was
    inserted, or together with it: a walk of several pages leaves out what was committed after it began, the next
    one begins seconds further back (feed.low), and a key is read again from no later than there. A row that somebody
    has changed meanwhile is left out too, and the younger ones of its key wait (dispatch.overtakes). What was written
    under a savepoint does not tell its transaction: when one has ended meanwhile, all numbers from its own on are in doubt
    and are left out (outbox.Snapshot). When a transaction has ended that was open for longer than the bound reaches back,
    nothing is taken before a walk from where it began (feed.missed). Not
    covered: order values older than their transaction's first write, such as now() in one that began with
    long reads. The sweep finds such rows.
 9. A read of recent rows leaves out what was written by transactions that had ended when the last whole walk
    began (feed.since). That walk or one before it has returned those rows: each is in flight, settled, or waits
    with its key, which is read again by key. What is dropped from memory otherwise makes the walk begin anew, from the very
    beginning and with nothing left out (dispatch.rewind).
 10. Memory is bounded: rows and bytes in flight stop the reads, blocked keys are bounded in number and
    in bytes, and their rows are not kept. Keys beyond that are passed over until the walk begins anew.
    A row larger than the room that is left is read, and goes, when next to nothing else is in flight; one above OUTBOX_MAX_ROW_BYTES fails without being read.

# What happens at each failure

  - The process dies: rows in flight are pending in the table. Those that were accepted and not marked
    yet are published again with the same id, at most as many as may be in flight.
  - A connection to the database dies: reads begin again after a pause; accepted rows are known in memory
    and are marked as soon as the database answers, not published again.
  - A firewall forgets connections, so that what is sent on them is lost without a word: the control connection's is noticed within
    the time to live, and all others are closed with it. One of the pool that waits for half of that time is examined over a new
    connection: it is closed unless the server works for it (outbox.Links). The listener's has to answer as often.
  - This replica alone cannot publish (its password, its network): it says so in its membership, the others count
    it no longer, and after three times the time to live it gives them its shards as on a clean stop.
  - An application keeps rows locked: their marks and refusals wait, in memory, and only theirs. A mark waits for
    a lock for a moment; after that, rows are marked that are free, and the others are tried again (locked). A clean stop
    waits for them; a shard that is to be given back waits for three times the time to live, and the end of a term, when
    the control connection was lost, not at all: then they are published again.
  - The table changes, or replicas are configured differently: replicas that would tell a row's shard or its place differently
    never own side by side (package owner). Each looks at the catalogue now and then, and opens a table that has changed anew (follow).
  - A read needs longer than it may: it rests in proportion, the other reads go first, and it comes again with twice
    the time (patience). A sweep or a re-read, which the others wait for, has little time at first.
  - The database will not mark rows, with an error or by doing nothing: they stay in flight, and some of them are tried again every
    ten seconds (rejected). What a statement cannot write in its time is written in smaller ones (settler.divide).
  - The table changes so that marks and refusals can never be written as they are phrased: it is opened again, and their rows
    are published again.
  - The database fails over: all sessions end, and with them the ownership. The next control connection is made to
    the new primary, and rows are read only over connections that reach the same server (owner.Witness).
  - The owner is cut off or paused: it stops trusting its locks before the server gives them away, and
    nothing is handed to a publisher after that. Marks may still be written: they are guarded.
  - The broker is away: its rows stay where they are, and their keys in order. With several destinations
    their keys are blocked, so that the others have room.
  - The outcome of a publish is unknown: the same messages go first when the broker is back. A row that
    leaves the outcome unknown again and again is tried alone; if others are accepted meanwhile, it is the
    culprit, and it is refused. While nothing is accepted, its topic waits, so that the rows of others are tried.
  - A panic: while a row is made into a message it is that row's error, and the row fails. In a publisher the outcome of what it was given
    is unknown, as above, and another publisher takes its place, so that the row that does it is found and refused (client). What
    panics in a goroutine of a publisher's own still ends the process.
  - A broker takes a row for a message that it holds already, by its id: after a publish without an answer, and for rows that the last
    owner may have sent, that is an acceptance. Of any other row it means that two rows have the same id, and one is lost: it
    is marked, counted and told (duplicate).
  - A row commits late, behind rows that were relayed already: the next read of recent rows finds it, or the
    sweep. If a younger row of its key has been relayed, the order cannot be mended; it is delivered
    at once and counted.
  - SIGTERM: nothing new is read or published; what is on the wire is answered and settled; then the shards are
    given back. After a clean stop no row is in between.
*/
package relay
