package main

// A mutant is a rule of the relay that is broken.
type mutant struct {
	name     string
	breaks   string // what must not be possible any more
	file     string // relative to the root of the module
	old, new string // the piece of it that is replaced; old occurs exactly once
	pkg      string // whose tests must notice
	tests    string // which of them, as for go test -run
}

// schedules are the random schedules of the engine.
const schedules = "^TestRandomSchedules$"

var mutants = []mutant{
	{name: "mark before the acknowledgement", breaks: "a row is marked only after the broker has it",
		file: "relay/dispatch.go", old: "		rows = append(rows, r)\n		bytes += r.size\n", new: "		rows = append(rows, r)\n		bytes += r.size\n		d.settle = append(d.settle, r)\n",
		pkg: "./relay", tests: schedules},
	{name: "unknown outcome taken for an acknowledgement", breaks: "a lost answer is no acknowledgement",
		file: "relay/answer.go", old: "		a.down, a.reason = err, causeUnavailable\n		a.requeue(r)\n", new: "		a.accepted(r)\n",
		pkg: "./relay", tests: schedules},
	{name: "in-flight rows forgotten too early", breaks: "a read that began before the mark was committed gives nothing twice",
		file: "relay/written.go", old: "		if d.reading {\n", new: "		if false {\n",
		pkg: "./relay", tests: schedules},
	{name: "random worker", breaks: "one worker for each key",
		file: "relay/admit.go", old: "r.worker = int(r.key.hash() % uint64(d.workers))", new: "r.worker = len(d.inFlight) % d.workers",
		pkg: "./relay", tests: schedules},
	{name: "late row queued last", breaks: "a row that commits late goes before the younger ones that still wait",
		file: "relay/admit.go", old: "		q.insert(r)\n", new: "		q.push(r)\n",
		pkg: "./relay", tests: schedules},
	{name: "blocked key not blocked", breaks: "behind a row that was refused or is held its key waits",
		file: "relay/admit.go", old: "	if b != nil && (!reread || b.phase != reading || b.closed) {\n", new: "	if b != nil && b.phase == writing {\n",
		pkg: "./relay", tests: schedules},
	{name: "key goes on before its refusal is written", breaks: "a refusal is written before its key goes on",
		file: "relay/answer.go", old: "	b.phase, b.failures = writing, 0\n", new: "	b.failures = 0\n	a.blocks.makeReady(b)\n",
		pkg: "./relay", tests: schedules},
	{name: "unblocked with rows dropped meanwhile", breaks: "a key is free only when nothing of it was dropped since it was read again",
		file: "relay/dispatch.go", old: "	if b.dropped {\n", new: "	if false {\n",
		pkg: "./relay", tests: schedules},
	{name: "attempt spent on an outage", breaks: "an outage spends no attempt",
		file: "relay/answer.go", old: "		a.held(r, causeUnavailable, err)\n", new: "		a.refused(r, err, a.keepFailures && r.attempt+1 > r.destination.MaxAttempts)\n",
		pkg: "./relay", tests: schedules},
	{name: "wait not rebuilt after a restart", breaks: "a wait that began before a restart ends when it would have ended without",
		file: "relay/admit.go", old: "	case r.Retried && r.Waited <", new: "	case false && r.Waited <",
		pkg: "./relay", tests: "^TestBackoffOutlivesARestart$"},
	{name: "failed row blocks nothing", breaks: "OUTBOX_ON_FAILED=block",
		file: "relay/admit.go", old: "	failed := d.failures.blocks(r.key)\n", new: "	failed := false\n",
		pkg: "./relay", tests: schedules},
	{name: "failed rows not read at a takeover", breaks: "OUTBOX_ON_FAILED=block, after a takeover too",
		file: "relay/failures.go", old: "f.begun.And(set), f.checked.And(set)\n", new: "f.begun.And(set), set\n",
		pkg: "./relay", tests: "^TestFailureDuringTheReadOfFailedRows$"},
	{name: "failed rows not read after pending ones", breaks: "OUTBOX_ON_FAILED=block, also where the last owner's refusal is written late",
		file: "relay/failures.go", old: "	f.afterwards, f.reading = true, false\n	return true\n", new: "	return false\n",
		pkg: "./relay", tests: "^TestRefusalOfTheLastOwnerIsWrittenLate$"},
	{name: "feed without sweep", breaks: "nothing is missed for ever",
		file: "relay/feed.go", old: "	return f.sweeping && (f.caughtUp && f.sinceSweep > 0 || f.sinceSweep >= walksPerSweep)\n", new: "	return false\n",
		pkg: "./relay", tests: "^TestLateCommits$"},
	{name: "no low-water bound", breaks: "rows that commit seconds late are seen at the next poll, in order",
		file: "relay/lookback.go", old: "			return m, true\n", new: "			m.highest = l.marks[len(l.marks)-1].highest + 1\n			return m, true\n",
		pkg: "./relay", tests: "^TestLongTransactions$"},
	{name: "end of a long transaction not noticed", breaks: "rows of a transaction that was open for long keep their place",
		file: "relay/lookback.go", old: "			missed = true\n", new: "			l.lowered = false\n",
		pkg: "./relay", tests: "^TestLongTransactions$"},
	{name: "no trust deadline", breaks: "nothing goes to a broker after the owner's trust has ended",
		file: "relay/worker.go", old: "		deadline = trusted\n", new: "		_ = trusted\n",
		pkg: "./relay", tests: "^TestTrustEndsCalls$"},
	{name: "give-back before settle", breaks: "a shard is given back when nothing of it is in flight",
		file: "relay/shards.go", old: "		if d.shards.inFlight[shard] == 0 {\n", new: "		if shard >= 0 {\n",
		pkg: "./relay", tests: "^TestRandomShardMoves$"},
	{name: "rows from a read that began before the shard came", breaks: "rows are taken only for shards held since before their read began",
		file: "relay/admit.go", old: "	if !d.shards.reading.Has(r.Shard) {\n", new: "	if !d.shards.active.Has(r.Shard) {\n",
		pkg: "./relay", tests: "^TestRandomShardMoves$"},
	{name: "clean stop does not wait for marks", breaks: "a clean stop leaves no duplicate",
		file: "relay/loop.go", old: "if l.publishing == 0 && l.settling == 0 && !l.reading", new: "if l.publishing == 0 && !l.reading",
		pkg: "./relay", tests: "^TestRandomSchedules$|^TestRandomShardMoves$"},
	{name: "refusal written over another's", breaks: "a refusal is written only to a row that is as it was read",
		file: "sql/refuse.sql", old: " and {unchanged}\n", new: "\n",
		pkg: "./outbox", tests: "."},
	{name: "prefix rule ignored by NATS", breaks: "of each key a prefix is accepted",
		file: "publisher/nats/batch.go", old: "	if n := b.next[i]; err == nil && n >= 0 &&", new: "	if n := b.next[i]; n >= 0 &&",
		pkg: "./publisher/nats", tests: "^TestRefusedMessageStopsItsKey$|^TestSuite$"},
	{name: "prefix rule ignored by RabbitMQ", breaks: "of each key a prefix is accepted",
		file: "publisher/amqp/batch.go", old: "	if err == nil {\n		b.ready = append(b.ready, b.next[i])\n", new: "	if true {\n		b.ready = append(b.ready, b.next[i])\n",
		pkg: "./publisher/amqp", tests: "^TestSuite$"},
	{name: "returned message taken for accepted", breaks: "an unroutable message is confirmed too, and not accepted",
		file: "publisher/amqp/batch.go", old: "		case f.returned != nil:\n", new: "		case f.returned != nil && f.message < 0:\n",
		pkg: "./publisher/amqp", tests: "^TestReturnedIsNeverAccepted$"},
}
