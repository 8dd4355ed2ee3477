/*
Package relay moves the rows of an outbox to a broker: each at least once, in order for each key and destination.

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

Each destination has an engine of its own, with its own reads, memory and workers, so that a destination takes nothing
from another. The process shares the ownership of shards, hints, the pool and the settlers among them (engines).

  - The feed decides what to read next and when (package feed): the walk, which goes on from a cursor and then looks at recent rows
    again for late commits (package late), a sweep from the beginning for whatever else was missed, and rows whose available_at has come.
  - The dispatch owns the state: rows in flight (dispatch, admit, answer, written), keys that wait (waits), what is in
    trouble at the broker (hold), and what the catch-up scans have to bring (catchup).
  - The loop is the one goroutine that touches feed and dispatch. It makes the reads in turns (reads): the walk, a page of a
    catch-up scan (scan), the heads of keys whose time has come (trial), due rows (due). Each rests in
    proportion to what it took, so that none starves another. Where rows have priorities, every eighth read of the walk is in table order.
  - A limiter lets no more rows go than the destination's rate allows, in proportion to the shards that this replica relays (package rate). Rows
    that are too old fail when it is their turn (expired). While a destination is paused its engine relays no shard (paused).
  - Workers publish one batch at a time. A key always has the same worker; heads that are tried have two lanes of their own.
  - Two settlers, the process's, mark what was accepted, many rows in a statement, and write refusals (settlement). What several
    destinations write to the same columns goes into the same statements, and so do the marks of a row in columns of several (together),
    which wait a moment for each other (meeting). No row is with both settlers at a time.
  - shards follows what this replica owns, failures knows which keys have a failed row, where such a row blocks its key.
  - Pauses between tries are those of package retry; sets of very many keys are those of package keys.

# Keys that wait

A row that cannot go is the head of its key. The key waits, and what is behind the head is passed over by every read and not
kept in memory. What is remembered is the head, and from where on rows were passed over (wait):

	           due, or chosen as a probe                 accepted, nothing passed over
	resting ───────────────────────────▶ asked ──▶ trial ────────────────────────────▶ forgotten
	held    ──────────┐                              │ └──accepted───▶ catching ──▶ a scan has come by: forgotten
	   ▲ ▲            │ its cause is gone            │                    ▲  │
	   │ └────────────┼──────────────────────────────┤ held again         │  │ a row of it is refused or held
	   │              └──────────────────────────────┼────────────────────┘  │
	   └──────────────────written───── writing ◀─────┴───────────────────────┘

Why it waits, and until when:

  - A refused row waits for its backoff, alone, and is read again by its id.
  - A row with available_at that has a read of its own waits like a row without a key: for itself, with nothing behind it. The next read of due
    rows from their beginning brings it, not a scan.
  - An answer that names what is in trouble, a partition, a topic, a stream, a queue, opens a hold for that: a circuit breaker. One head
    tries it now and then, with pauses that grow, and all other keys that meet it wait. When the try is accepted the hold closes. If
    the head is gone another key's tries; if only rows without a key wait, the hold is half-open, and the next row of it tries.
  - When the head is done, or its hold has closed, a catch-up scan brings what was passed over: in table order, from the first
    such row to where the walk has been, one scan at a time for all keys. Until a scan has come by, the key is closed to all
    other reads.
  - When nothing at all can be published to the destination, that is an outage: rows stay in their lanes, and a few of them try.

At most 131,072 keys and 10,000 holds are remembered one by one. Further keys wait together as a crowd for ten seconds at a time; keys that meet
further troubles wait alone. A restart forgets all of it and finds it again in the rows.

# Invariants

 1. A row is in flight once. It is known from the read on until its mark has been committed, and further until no read can return it that
    began before that commit (dispatch.gone).
 2. A key is in one call. Its rows have one lane and stand there in table order; a head is tried only while nothing else of its key is
    queued or on the wire (takeTrials). Of each key a publisher accepts a prefix of what it was given.
 3. Nothing passes a head. While a key waits, what is queued of it is dropped (isVoid) and what is read of it is passed over (mayPass). A
    catch-up scan brings both: it begins at or before the first of them (wait.low, wait.next). Only a row that lies before the head goes at
    once: it was committed late.
 4. Marks follow answers. relayed_at is written for accepted rows alone. A refusal is written only over the attempt, relayed_at and failed_at
    that were read, and before its key goes on. Where failed rows block their keys, a shard's failed rows are read before its others are taken.
 5. Only owned rows go. A row is taken from a read during all of which its shard was ours (shards.reading). A shard is given back when no
    engine has anything of it in flight but what cannot be written (shards.letGo), and its next owner walks from the very beginning.
 6. Late commits keep their place. A younger row of a key is taken only from a read that could also see each older one that was committed
    before the younger was inserted, or with it (package late). Not covered: order values older than their transaction's first write. The
    sweep finds such rows.
 7. Memory is bounded. Rows and bytes in flight stop the reads, a row larger than OUTBOX_MAX_ROW_BYTES is never read, and what is
    remembered of keys and holds is bounded in number and bytes.

# What happens at each failure

  - The process dies: rows in flight are pending in the table. Those that were accepted and not marked
    yet are published again with the same id, at most as many as may be in flight.
  - A connection to the database dies: reads begin again after a pause; accepted rows are known in memory
    and are marked as soon as the database answers, not published again.
  - A firewall forgets connections, so that what is sent on them is lost without an error: the control connection's is noticed within
    the time to live, and all others are closed with it. One of the pool that waits for half of that time is examined over a new
    connection: it is closed unless the server works for it (outbox.Links). The listener's has to answer as often.
  - This replica alone cannot publish to one of its destinations (its password, its network): it says so in its membership, the others count
    it no longer, and after three times the time to live it gives them its shards as on a clean stop. Meanwhile its other destinations go on.
  - An application keeps rows locked: their marks and refusals wait, in memory, and only theirs. A mark waits for
    a lock for a moment; after that, rows are marked that are free, and the others are tried again (locked). A clean stop
    waits for them; a shard that is to be given back waits for three times the time to live, and the end of a term, when
    the control connection was lost, not at all: then they are published again.
  - The table changes, or replicas are configured differently: replicas that would place a row in another shard or order
    never own side by side (package owner). Each looks at the catalogue now and then, and opens a table again that has changed (follow).
  - A read needs longer than it may: it rests in proportion, the other reads go first, and it comes again with twice
    the time (patience). A sweep, a scan or a read of heads has little time at first.
  - The database will not mark rows, with an error or by doing nothing: they stay in flight, and some of them are tried again every
    ten seconds (rejected). What a statement cannot write in its time is written in smaller ones (settler.divide).
  - The table changes so that marks and refusals can never be written as they are phrased: it is opened again, and their rows
    are published again.
  - The database fails over: all sessions end, and with them the ownership. The next control connection is made to
    the new primary, and rows are read only over connections that reach the same server (owner.Witness).
  - The owner is cut off or paused: it stops trusting its locks before the server gives them away, and
    nothing is handed to a publisher after that. Marks may still be written: they are guarded.
  - The outcome of a publish is unknown: the same messages go first when the broker is back. A row that
    leaves the outcome unknown again and again is tried alone; if others are accepted meanwhile, it is the
    culprit, and it is refused.
  - A panic: while a row is made into a message it is that row's error, and the row fails. In a publisher the outcome of what it was given
    is unknown, as above, and another publisher takes its place, so that the row that does it is found and refused (client). What
    panics in a goroutine of a publisher's own still ends the process.
  - A broker takes a row for a message that it holds already, by its id: after a publish without an answer, and for rows that the last
    owner may have sent, that is an acceptance. Of any other row it means that two rows have the same id, and one is lost: it
    is marked, counted and reported (duplicate).
  - A row commits late, behind rows that were relayed already: the next read of recent rows finds it, or the
    sweep. If a younger row of its key has been relayed, the order cannot be mended; it is delivered
    at once and counted.
  - SIGTERM: nothing new is read or published; what is on the wire is answered and settled; then the shards are
    given back. After a clean stop no row is in between.
*/
package relay
