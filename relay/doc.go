/*
Package relay moves the rows of an outbox to brokers: each row at least once, in order for each key and destination.

# The life of a message

	        insert + commit                      SELECT, no lock
	app ───────────────────▶ pending ─────────────────────────────▶ in flight
	                            ▲                                      │ lane of its key's worker
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

Each destination has an engine of its own, with its own reads, memory and workers, so that one destination takes nothing from another. The
engines of a process share hints, the connection pool and the settlers, and those with the same columns the ownership of shards, too
(engines). Imports point down this list:

  - Package relay has the public API, the parts that the process shares, and the engine: one loop, a reader and the workers.
  - Package settle writes what became of rows. The process has two settlers. They mark accepted rows, many in one statement, and write
    refusals. Writes of several destinations to the same columns share statements. Where destinations have columns of their own, the marks
    of one row wait a moment for each other and share a statement, too. If such joint marks take long, each destination marks by itself for
    a time. A row is never with both settlers at once.
  - Package dispatch owns the state of a destination: rows in flight, keys that wait, what is in trouble at the broker, and what the
    catch-up scans have to bring. Where failed rows block their keys, it knows which keys have a failed row.
  - Package feed decides what to read next and when. The tail scan goes on from a cursor and then reads recent rows again for late
    commits (package late). A reconciliation scan from the beginning finds whatever else was missed. Rows whose available_at has come have
    a read of their own.
  - Packages measure, report, rate, retry and keys count what happens, log it in few lines, limit the rows per second, time retries, and
    remember large numbers of keys.

The loop is the only goroutine that touches feed and dispatch. It takes turns among four kinds of reads (reads): the tail scan (readFeed),
a page of a catch-up scan (readScan), the heads of keys whose time has come (readHeads), and due rows (readDue). Each kind rests in
proportion to the time it took, so that none starves another. Where rows have priorities, every eighth read of the tail scan is in table
order.

A worker publishes one batch at a time. A key always has the same worker; heads that are tried have two lanes of their own. Rows that are
too old fail when it is their turn. While a destination is paused, its engine relays no shard.

# Keys that wait

A row that cannot go is the head of its key. The key waits. Every read passes over the key's rows after the head, and they are not kept in
memory. Only the head is remembered, and the place from which rows were passed over (wait):

	           due, or chosen as a probe                 accepted, nothing passed over
	resting ───────────────────────────▶ asked ──▶ trial ────────────────────────────▶ forgotten
	held    ──────────┐                              │ └──accepted───▶ catching ──▶ a scan has come by: forgotten
	   ▲ ▲            │ its cause is gone            │                    ▲  │
	   │ └────────────┼──────────────────────────────┤ held again         │  │ a row of it is refused or held
	   │              └──────────────────────────────┼────────────────────┘  │
	   └──────────────────written───── writing ◀─────┴───────────────────────┘

Why it waits, and until when:

  - A refused row waits for its backoff, alone, and is read again by its id.
  - A row that has failed for good keeps its key until that is written. The queued rows of the key stay in their lane until then, and go
    on without another read (failing). If the failure is not written soon, or rows in flight take more than half of the room, the key
    waits as for any refusal.
  - A row with available_at that has a read of its own waits like a row without a key: nothing waits for it. The next read of due rows from
    their beginning brings it, not a scan.
  - An answer that names what is in trouble (a partition, a topic, a stream, a queue) opens a hold for it: a circuit breaker. One head tries
    it now and then, with growing pauses, and all other keys that meet it wait. The hold closes when the try is accepted. If the head is
    gone, the head of another key tries. If only rows without a key wait, the hold is half-open, and the next row that meets it tries.
  - When the head is done, or its hold has closed, a catch-up scan brings what was passed over. It goes in table order, from the first such
    row to the place that the tail scan has reached. There is one such scan at a time for all keys. Until a scan has passed,
    the key is closed to all other reads.
  - When nothing at all can be published to the destination, there is an outage: rows stay in their lanes, and a few of them try.

Up to 131,072 keys and 10,000 holds are remembered one by one. Further keys wait together as a crowd, for ten seconds at a time. Keys that
meet further troubles wait alone. A restart forgets all of this and finds it again in the rows.

# Invariants

 1. A row is in flight once. It is known from its read until its mark has been committed, and then for as long as a read may
    return it that began before that commit (gone).
 2. A key is in one call. Its rows share one lane and stand there in table order. A head is tried only while nothing else of its key is
    queued or on the wire (TakeTrials). A publisher accepts a prefix of what it was given of each key.
 3. Nothing passes a head. While a key waits, its queued rows are dropped (isVoid) and its rows that are read are passed over (letPass). A
    catch-up scan brings both: it begins at or before the first of them (low, next), and what it has yet to bring stays dropped (brought).
    Only a row that lies before the head goes at once: it was committed late. If it was left to a later read, the head goes after it
    (passBefore).
 4. Marks follow answers. relayed_at is written for accepted rows only. A refusal is written only if attempt, relayed_at and failed_at
    are still as they were read, and before the key goes on. Where failed rows block their keys, a shard's failed rows are read before any
    other row of the shard is taken.
 5. Only owned rows go. A row is taken from a read only if this replica owned its shard during the whole read (reading). A shard is
    released when no engine has any of its rows in flight, except rows that cannot be written (letGo). The shard's next owner reads from the
    very beginning.
 6. Late commits keep their place. A younger row of a key is taken only from a read that could also see every older row that was committed
    before the younger one was inserted, or with it (package late). Order values older than their transaction's first write are not
    covered; the reconciliation scan finds such rows.
 7. Memory is bounded. Rows and bytes in flight stop the reads, a row larger than MaxRowBytes is never read, and what is
    remembered of keys and holds is bounded in number and bytes.

# What happens at each failure

  - The process dies: rows in flight are pending in the table. Rows that were accepted and not yet marked are published again with the same
    id, at most as many as may be in flight.
  - A connection to the database dies: reads begin again after a pause. Accepted rows are known in memory. They are marked as soon as the
    database answers, and not published again.
  - A firewall forgets connections, so that what is sent on them is lost without an error: the loss of the control connection is noticed
    within the time to live, and all other connections are closed with it. A connection of the pool that has waited for half of that time is
    examined over a new connection: it is closed unless the server is working for it (outbox.Links). The listener's connection has to answer
    as often.
  - Only this replica cannot publish to one of its destinations (its password, its network): it says so in its membership, and the others no
    longer count it. After three times the time to live it gives them its shards, as on a clean stop. Until then its other destinations
    go on.
  - An application keeps rows locked: only the marks and refusals of these rows wait, in memory. A mark waits for a lock for a moment; after
    that, the free rows are marked and the locked ones are tried again (locked). A clean stop waits for them. A shard that is to be given
    back waits for three times the time to live. The end of a term, when the control connection was lost, does not wait: the rows are
    then published again.
  - The table changes, or replicas are configured differently: replicas that would place a row in another shard or order
    never own shards at the same time (package owner). Each replica looks at the catalogue now and then and reopens a table that has
    changed (follow).
  - A read needs more time than it has: it rests in proportion, the other reads go first, and it is repeated with twice
    the time (patience). A reconciliation scan, a catch-up scan or a read of heads has little time at first.
  - The database does not mark rows, with an error or by doing nothing: they stay in flight, and some of them are tried again every
    ten seconds (rejected). What a statement cannot write in its time is written in smaller statements (divide).
  - The table changes so that marks and refusals can never be written as they are phrased: the table is reopened, and the rows are published
    again.
  - The database fails over: all sessions end, and the ownership ends with them. The next control connection is made to
    the new primary, and rows are read only over connections that reach the same server (owner.Witness).
  - The owner is cut off or paused: it stops trusting its locks before the server gives them away, and from then on
    nothing is handed to a publisher. Marks may still be written: they are guarded.
  - The outcome of a publish is unknown: the same messages go first when the broker is back. A row that leaves the outcome unknown
    again and again is tried alone. If other rows are accepted meanwhile, this row is the culprit, and it is refused.
  - A panic while a row is made into a message: it is that row's error, and the row fails. A panic in a publisher: the outcome of what it
    was given is unknown, as above, and a new publisher takes its place, so that the row that causes the panic is found and refused
    (client). A panic in a goroutine that a publisher started still ends the process.
  - A broker takes a row for a message that it already holds, by its id: after a publish without an answer, and for rows that the previous
    owner may have sent, this is an acceptance. For any other row it means that two rows have the same id, and one of them is lost: the row
    is marked, counted and reported (duplicate).
  - A row commits late, with a place before rows that were already relayed: the next read of recent rows or the reconciliation scan
    finds it. If a younger row of its key has been relayed, the order cannot be restored; the row is delivered
    at once and counted.
  - SIGTERM: nothing new is read or published. What is on the wire is answered and settled, and then the shards are
    released. After a clean stop no row is in flight.
*/
package relay
