package main

// engine breaks the other rules of the engine: its reads, answers, ownership, writes and limits.
var engine = []mutant{
	{
		name: "unknown outcome taken for an acknowledgement", breaks: "a lost answer is no acknowledgement",
		file: "relay/internal/dispatch/answer.go", old: "		r.unknown++\n",
		new: "		if r != nil {\n			a.accept(r, w)\n			return\n		}\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "in-flight rows forgotten too early", breaks: "a read that began before the mark was committed gives nothing twice",
		file: "relay/internal/dispatch/written.go", old: "	if d.gone != nil {\n", new: "	if false {\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "key goes on before its refusal is written", breaks: "a refusal is written before its key goes on",
		file: "relay/internal/dispatch/answer.go", old: "	a.refuse = append(a.refuse, Refusal{Row: r, Err: err, Failed: failed})\n",
		new: "	a.refuse = append(a.refuse, Refusal{Row: r, Err: err, Failed: failed})\n	a.goOn(w)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "attempt spent on an outage", breaks: "an outage spends no attempt",
		file: "relay/internal/dispatch/answer.go", old: "		a.put(r, classCause(class), err)\n",
		new: "		a.refused(r, err, a.Table.KeepsFailures() && r.Try+1 > a.To.MaxAttempts)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "failed row blocks nothing", breaks: "OUTBOX_ON_FAILED=block",
		file: "relay/internal/dispatch/failures.go", old: "	return known || s.more.Has(k.Hash())\n", new: "	return false && known\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "failed rows not read at a takeover", breaks: "OUTBOX_ON_FAILED=block, after a takeover too",
		file: "relay/internal/dispatch/failures.go", old: "f.begun.And(set), f.checked.And(set)\n", new: "f.begun.And(set), set\n",
		pkg: "./relay/internal/dispatch", tests: "^TestFailureDuringTheReadOfFailedRows$",
	},
	{
		name:   "failed rows not read after pending ones",
		breaks: "OUTBOX_ON_FAILED=block, also where the last owner's refusal is written late",
		file:   "relay/internal/dispatch/failures.go", old: "	f.afterwards, f.reading = true, false\n	return true\n", new: "	return false\n",
		pkg: "./relay", tests: "^TestRefusalOfTheLastOwnerIsWrittenLate$",
	},
	{
		name: "walk goes on after a retry", breaks: "OUTBOX_ON_FAILED=block: a retried row goes before its key's younger ones",
		file: "relay/internal/dispatch/failures.go", old: "		d.rewind = true\n", new: "",
		pkg: "./relay/internal/dispatch", tests: "^TestKeysWithoutNamesComeFree$",
	},
	{
		name: "feed without sweep", breaks: "nothing is missed for ever",
		file: "relay/internal/feed/sweep.go", old: "	return s.under && (f.caughtUp && s.walks > 0 || s.walks >= walksPerSweep)\n",
		new: "	return false\n",
		pkg: "./relay", tests: "^TestLateCommits$",
	},
	{
		name: "no low-water bound", breaks: "rows that commit seconds late are seen at the next poll, in order",
		file: "relay/internal/late/late.go", old: "			return m, true\n",
		new: "			m.highest = c.marks[len(c.marks)-1].highest + 1\n			return m, true\n",
		pkg: "./relay", tests: "^TestLongTransactions$",
	},
	{
		name: "end of a long transaction not noticed", breaks: "rows of a transaction that was open for long keep their place",
		file: "relay/internal/late/late.go", old: "		c.lowered, c.ended = true, first\n", new: "		return false\n",
		pkg: "./relay", tests: "^TestLongTransactions$",
	},
	{
		name:   "reads in table order go on when the walk begins again",
		breaks: "rows of the same priority keep their order when shards leave and come back",
		file:   "relay/internal/feed/feed.go", old: "f.guard = math.MinInt64, false, guard{}", new: "f.long = math.MinInt64, false, false",
		pkg: "./relay/internal/feed", tests: "^TestGuardBeginsAgainWithTheWalk$",
	},
	{
		name: "walk by priority that never looks at its beginning", breaks: "rows that commit late keep their order among equal priorities",
		file: "relay/internal/feed/feed.go", old: "	restart := f.order.Ranked() && now", new: "	restart := false && now",
		pkg: "./relay", tests: "^TestLateCommitDuringAWalkByPriority$",
	},
	{
		name: "row of a running transaction taken for read", breaks: "a read leaves out only what earlier ones have returned",
		file: "relay/internal/late/late.go", old: "c.since = c.seen.Oldest", new: "c.since = c.seen.Next",
		pkg: "./relay", tests: "^TestLongTransactions$",
	},
	{
		name: "mark without effect taken for one", breaks: "what cannot be marked is not published again and again",
		file: "relay/internal/settle/settler.go", old: "	if identities == nil {\n		return err\n",
		new: "	if true {\n		if identities != nil {\n			err = nil\n		}\n		return err\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "altered table read for ever", breaks: "a table that was altered is opened again",
		file: "relay/reads.go", old: "		e.outdated = r.err\n", new: "		_ = r.err\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "end of the snapshot taken for the next number", breaks: "a mark is safe from all transactions that have begun",
		file: "relay/internal/late/late.go", old: "now.Unassigned, false\n", new: "now.Next, false\n",
		pkg: "./relay", tests: "^TestTransactionsBehindTheSnapshot$",
	},
	{
		name: "end during a read not noticed", breaks: "the end of a long transaction is noticed before its rows are taken",
		file: "relay/internal/feed/feed.go", old: "f.Late.MayTake(&page.Ended)", new: "f.Late.MayTake(&page.Snapshot)",
		pkg: "./relay/internal/feed", tests: "^TestPageOfALongTransactionsEndIsNotTaken$",
	},
	{
		name: "no trust deadline", breaks: "nothing goes to a broker after the owner's trust has ended",
		file: "relay/worker.go", old: "		deadline = trusted\n", new: "		_ = trusted\n",
		pkg: "./relay", tests: "^TestTrustEndsCalls$",
	},
	{
		name: "give-back before settle", breaks: "a shard is given back when nothing of it is in flight",
		file: "relay/internal/dispatch/shards.go", old: "		if d.shards.inFlight[shard] == 0 {\n", new: "		if shard >= 0 {\n",
		pkg: "./relay", tests: "^TestRandomShardMoves$",
	},
	{
		name: "clean stop does not wait for marks", breaks: "a clean stop leaves no duplicate",
		file: "relay/loop.go", old: "if !e.dispatch.Publishing() && e.settling == 0 && !e.reading",
		new: "if !e.dispatch.Publishing() && !e.reading",
		pkg: "./relay", tests: "^TestRandomSchedules$|^TestRandomShardMoves$",
	},
	{
		name: "duplicates pass in silence", breaks: "a row that a stream drops without having been sent is counted and told",
		file: "relay/internal/dispatch/duplicate.go", old: "	if r.unknown > 0 || a.sent.has(r) || !a.newHere(r) {\n",
		new: "	if r != nil {\n",
		pkg: "./relay", tests: "^TestDuplicateOfWhatWasNeverSent$",
	},
	{
		name:   "older row forgotten at a refusal",
		breaks: "a row that goes before the head while its refusal is written does not wait for the backoff",
		file:   "relay/internal/dispatch/written.go", old: "	case w.older || w.low < w.head || !written", new: "	case !written",
		pkg: "./relay", tests: "^TestQueuedRowWaitsForTheOldestHead$|^TestOlderRowDoesNotWaitForTheYounger$",
	},
	{
		name: "key goes on before the other refusal is written", breaks: "each refusal of a key is written before it goes on",
		file: "relay/internal/dispatch/written.go", old: "		if w.writes--; w.writes == 0 {\n",
		new: "		if w.writes--; w.writes >= 0 {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestQueuedRowWaitsForTheOldestHead$",
	},
	{
		name: "walk always first", breaks: "walk, scans and reads of heads take turns",
		file: "relay/reads.go", old: "			e.turnOf = next + 1\n", new: "			e.turnOf = 0\n",
		pkg: "./relay", tests: "^TestBacklogLeavesTimeToKeysThatWait$",
	},
	{
		name: "scans always first", breaks: "walk, scans and reads of heads take turns",
		file: "relay/reads.go", old: "			e.turnOf = next + 1\n", new: "			e.turnOf = 1\n",
		pkg: "./relay", tests: "^TestStuckKeyCostsOthersNothing$",
	},
	{
		name: "reads of heads without a rest", breaks: "however many keys wait, reading their heads leaves time to others",
		file: "relay/reads.go", old: "const trialRest = 4", new: "const trialRest = 0",
		pkg: "./relay", tests: "^TestManyStuckKeysCostOthersLittle$",
	},
	{
		name:   "mark written to the columns of another destination",
		breaks: "a mark is written for the destination that has accepted the row, and no other",
		file:   "relay/internal/settle/settlement.go", old: "g, p := &s.states[w.state], piece", new: "g, p := &s.states[0], piece",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "row done when one of two destinations is", breaks: "a row of which one mark is there gets the other's all the same",
		file: "relay/internal/settle/together.go", old: "took; all {\n", new: "took; all || err == nil {\n",
		pkg: "./relay", tests: "^TestMarksOfTwoDestinations$",
	},
	{
		name: "marks of one destination for all", breaks: "a row is marked for those destinations that have accepted it",
		file: "relay/internal/settle/together.go", old: "			if set := sets[r.Identity()]; bits",
		new: "			sets[r.Identity()] = 1<<len(job) - 1\n			if set := sets[r.Identity()]; bits",
		pkg: "./relay", tests: "^TestMarksOfTwoDestinations$",
	},
	{
		name: "marks that do not meet", breaks: "destinations that are equally fast mark their rows with one statement",
		file: "relay/internal/settle/meeting.go", old: " || m.walked[i] < r.Position.Ordinal)", new: ")",
		pkg: "./relay", tests: "^TestMarksMeet$",
	},
	{
		name: "marks that wait for a slow destination", breaks: "a slow destination takes nothing from another one",
		file: "relay/internal/settle/meeting.go", old: "			w.credit -= took\n", new: "			w.credit -= 0 * took\n",
		pkg: "./relay", tests: "^TestMarksDoNotWaitForLong$",
	},
	{
		name: "marks that wait in vain for ever", breaks: "a destination that is away takes nothing from another one",
		file: "relay/internal/settle/meeting.go", old: "m.vain[i] < mostVain && ", new: "",
		pkg: "./relay/internal/settle", tests: "^TestWhatMarksWaitFor$",
	},
	{
		name: "marks made together however slow", breaks: "slow marks of one destination take nothing from another one",
		file: "relay/internal/settle/meeting.go", old: "	if took >= longJoin {\n", new: "	if false {\n",
		pkg: "./relay/internal/settle", tests: "^TestWhatMarksWaitFor$",
	},
	{
		name: "marks that wait at a stop", breaks: "a stop is immediate",
		file: "relay/internal/settle/meeting.go", old: "!m.hurried && ", new: "",
		pkg: "./relay/internal/settle", tests: "^TestWhatMarksWaitFor$",
	},
	{
		name: "row with both settlers", breaks: "two destinations never wait for each other's locks",
		file: "relay/internal/settle/settlement.go", old: "		s.taken[r.ID()] = struct{}{}\n", new: "		_ = r\n",
		pkg: "./relay/internal/settle", tests: "^TestRowIsWithOneSettler$",
	},
	{
		name: "row that is tried again with both settlers", breaks: "two destinations never wait for each other's locks",
		file: "relay/internal/settle/settlement.go", old: " && !s.meets(w) }\n", new: " }\n",
		pkg: "./relay/internal/settle", tests: "^TestRowIsWithOneSettler$",
	},
	{
		name: "trouble of one engine told to another", breaks: "each engine learns what became of its own rows",
		file: "relay/internal/settle/settlement.go", old: "		if effect, has := all[r.Identity()]; has {\n			own[r.Identity()] = effect\n		}\n",
		new: "		own[r.Identity()] = dispatch.Unfree\n",
		pkg: "./relay/internal/settle", tests: "^TestEnginesLearnOfTheirOwnRows$",
	},
	{
		name: "head goes on before a row that came while it was on the wire", breaks: "a row that lies before a head goes first",
		file: "relay/internal/dispatch/answer.go", old: "	case w != nil && w.trial == r && w.older:\n", new: "	case false:\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadWaitsForWhatLiesBeforeIt$",
	},
	{
		name:   "heads read while nothing can be published",
		breaks: "during an outage heads are read only where nothing queued can try the destination",
		file:   "relay/internal/dispatch/outage.go",
		old:    "	if !d.outage.active() {\n		return time.Time{}\n	}\n	for i := range d.lanes {\n		if",
		new:    "	if d.outage.err != nil || !d.outage.active() {\n		return time.Time{}\n	}\n	for i := range d.lanes {\n		if",
		pkg:    "./relay/internal/dispatch", tests: "^TestHeadsAreNotReadInVainInAnOutage$",
	},
	{
		name: "filter ignored", breaks: "a destination reads its own rows alone",
		file: "relay/engines.go", old: "newEngine(es, d, es.view(d), ",
		new: "newEngine(es, d, es.view(es.destinations[len(es.destinations)-1]), ",
		pkg: "./relay", tests: "^TestRandomSchedules$|^TestKeyOverTwoDestinations$",
	},
	{
		name:   "given back while another destination has rows in flight",
		breaks: "a shard is given back when no engine has anything of it in flight",
		file:   "relay/engines.go", old: "		all = all.And(other.left)\n", new: "		_ = other\n",
		pkg: "./relay", tests: "^TestShardIsGivenBackByAllDestinations$",
	},
	{
		name: "engines wait for the slowest to give back", breaks: "the others go on feeding until the slowest has let go",
		file: "relay/engines.go", old: "	if !e.slow {\n", new: "	if false {\n",
		pkg: "./relay", tests: "^TestShardIsGivenBackByAllDestinations$",
	},
	{
		name: "let go of before the shard was to stay", breaks: "what was let go of an earlier time says nothing of the next one",
		file: "relay/engines.go", old: "		other.left = other.left.And(state.Leaving)\n", new: "		_ = other\n",
		pkg: "./relay", tests: "^TestShardIsGivenBackByAllDestinations$",
	},
	{
		name:   "retried row overtaken",
		breaks: "OUTBOX_ON_FAILED=block: a retried row goes before its key's younger ones, wherever the walk is",
		file:   "relay/internal/dispatch/failures.go", old: "			d.passKey(k, k.Hash(), noShard, h.low, now)\n",
		new: "			_, _ = k, h\n",
		pkg: "./relay", tests: "^TestRetryDuringAWalk$",
	},
	{
		name: "paused destination goes on", breaks: "nothing is published while a destination is paused",
		file: "relay/paused.go", old: "	if e.paused = paused; paused {\n", new: "	if e.paused = paused; false {\n",
		pkg: "./relay", tests: "^TestPausedDestination$",
	},
	{
		name: "whole rate for each replica", breaks: "a rate is that of all replicas together",
		file: "relay/internal/rate/limiter.go", old: "l.rate * float64(shards) / float64(l.shards)", new: "l.rate",
		pkg: "./relay", tests: "^TestRateOfAllReplicas$",
	},
	{
		name: "outage uses up the rate", breaks: "what did not reach the broker gives its tokens back",
		file: "relay/internal/dispatch/answer.go", old: "		d.limiter.Spend(-(", new: "		_ = (-(",
		pkg: "./relay", tests: "^TestRateIsItsOwn$",
	},
	{
		name: "rate fills memory", breaks: "no more is read than may be sent soon",
		file: "relay/internal/dispatch/dispatch.go", old: "min(d.Limits.Rows-len(d.inFlight), d.limiter.Ahead()-d.queued())",
		new: "d.Limits.Rows - len(d.inFlight)",
		pkg: "./relay", tests: "^TestRate$",
	},
	{
		name: "age by the relay's clock", breaks: "a row's age is told by the clock that has dated it",
		file: "relay/internal/dispatch/expired.go", old: "c.database.Add(now.Sub(c.at)).Sub(t)", new: "now.Sub(t)",
		pkg: "./relay", tests: "^TestOldRowsExpire$",
	},
	{
		name:   "row expires behind a failed one",
		breaks: "OUTBOX_ON_FAILED=block: the first failed row is dealt with before the next one fails",
		file:   "relay/internal/dispatch/expired.go", old: "w.expiring && d.Failures == nil", new: "w.expiring",
		pkg: "./relay", tests: "^TestOneRowOfAKeyExpiresAtATime$",
	},
}
