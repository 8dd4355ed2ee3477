package main

// waiting breaks the rules by which the engine treats keys: which rows go, which wait, and in which order.
var waiting = []mutant{
	{
		name: "rows that waited are not owed after a failed read", breaks: "a read that is to bring rows that waited is made again if it fails",
		file: "relay/internal/feed/feed.go", old: "		f.whole = now\n", new: "		f.whole, f.owes = now, false\n",
		pkg: "./relay", tests: "^TestReadThatBringsRowsThatWaitedFails$",
	},
	{
		name: "key whose rows fail takes all the room", breaks: "a key whose rows fail one after the other leaves room for others",
		file: "relay/internal/dispatch/failing.go", old: "	room := len(d.inFlight) <= d.Limits.Rows/2 && ", new: "	room := true || ",
		pkg: "./relay", tests: "^TestKeyWhoseRowsFailLeavesRoom$",
	},
	{
		name: "rows that do not wait for a failure of their key", breaks: "a key goes on when the failure of its first row is written",
		file: "relay/internal/dispatch/failing.go", old: "return first != nil && first != r", new: "return false && first != r",
		pkg: "./relay", tests: "^TestKeyGoesOnWhenItsFailureIsWritten$",
	},
	{
		name: "failures that are written slowly keep the room", breaks: "queued rows of a key that waits take no room from others",
		file: "relay/internal/dispatch/failing.go", old: "now.Sub(d.failing.since) < longestFailing", new: "true",
		pkg: "./relay", tests: "^TestFailureThatIsNotWritten$",
	},
	{
		name: "mark before the acknowledgement", breaks: "a row is marked only after the broker has it",
		file: "relay/internal/dispatch/dispatch.go", old: "			rows = append(rows, r)\n			bytes += r.Size\n",
		new: "			rows = append(rows, r)\n			bytes += r.Size\n			d.settle = append(d.settle, r)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "rows changed by a command not read again", breaks: "a row that is retried goes on soon",
		file: "relay/internal/late/late.go", old: "Reread() { c.read = nil }", new: "Reread() {}",
		pkg: "./relay", tests: "^TestRowRetriedSoon$",
	},
	{
		name: "refused keys take the only place", breaks: "a topic that is back is tried soon beside keys that are refused",
		file: "relay/internal/dispatch/trial.go", old: "max((n+rand.N(2))/2, ", new: "max((n+rand.N(1))/2, ",
		pkg: "./relay/internal/dispatch", tests: "^TestRoomForOneHeadIsShared$",
	},
	{
		name: "command during a read of failed rows forgotten", breaks: "a row that is retried goes on soon",
		file: "relay/internal/dispatch/failures.go", old: "		f.asked = true", new: "		f.asked = false",
		pkg: "./relay/internal/dispatch", tests: "^TestManyFailedRowsAreReadRarely$",
	},
	{
		name: "random worker", breaks: "a key has one worker",
		file: "relay/internal/dispatch/admit.go", old: "r.worker = int(r.lane() % uint64(d.workers()))",
		new: "r.worker = len(d.inFlight) % d.workers()",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "wait not rebuilt after a restart", breaks: "a wait that began before a restart ends at the same time as without the restart",
		file: "relay/internal/dispatch/admit.go", old: "	case rest > 0:\n", new: "	case rest > 0 && w != nil:\n",
		pkg: "./relay", tests: "^TestBackoffOutlivesARestart$",
	},
	{
		name:   "rows from a read that began before the shard came",
		breaks: "rows are taken only for shards held since before their read began",
		file:   "relay/internal/dispatch/admit.go", old: "	if !d.shards.reading.Has(r.Shard) {\n",
		new: "	if !d.shards.active.Has(r.Shard) {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestReadsFromBeforeTheShardCameBringNothing$",
	},
	{
		name: "row of a waiting key published", breaks: "a key waits after a row of it was refused or held",
		file: "relay/internal/dispatch/admit.go", old: "	if w != nil && !d.letPass(r, w, from) {\n",
		new: "	if w != nil && w.state == writing && !d.letPass(r, w, from) {\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "queued rows go before their key does", breaks: "queued rows after a waiting head are not published",
		file: "relay/internal/dispatch/dispatch.go", old: "		return d.bars(w, r)\n", new: "		return false\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "queued rows go before passed ones", breaks: "a queued row is not published before a row of its key that was passed over",
		file: "relay/internal/dispatch/dispatch.go", old: "		return d.bars(w, r)\n", new: "		return d.lowIn(w, r) >= w.head\n",
		pkg: "./relay/internal/dispatch", tests: "^TestQueuedRowWaitsForTheOldestHead$",
	},
	{
		name:   "queued rows go before what the next scan brings",
		breaks: "queued rows of a key that waits for a scan are not published before the rows that the scan brings",
		file:   "relay/internal/dispatch/dispatch.go", old: "		return low(r) >= w.low\n", new: "		return false\n",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name:   "queued rows go before what the scan has left",
		breaks: "rows that a scan has brought are not published before rows that were passed over meanwhile",
		file:   "relay/internal/dispatch/dispatch.go", old: "		return low(r) > d.below(w.next) ||", new: "		return",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name: "queued rows of a failed key go", breaks: "OUTBOX_ON_FAILED=block, for rows that are queued, too",
		file: "relay/internal/dispatch/dispatch.go", old: "	case d.Failures.has(r):\n		return true\n",
		new: "	case false:\n		return true\n",
		pkg: "./relay/internal/dispatch", tests: "^TestQueuedRowsOfAFailedKey$",
	},
	{
		name: "dropped row forgotten", breaks: "dropped rows are read again",
		file: "relay/internal/dispatch/dispatch.go", old: "		d.passOver(w, low(r))\n	}\n	d.forget(r)\n",
		new: "		_ = w\n	}\n	d.forget(r)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "head tried beside rows of its key", breaks: "a head is tried only when nothing of its key is queued or on the wire",
		file: "relay/internal/dispatch/trial.go", old: "is && w.state == asked {", new: "is && w.state == asked && false {",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadIsTriedAlone$",
	},
	{
		name: "head of a failed key asked for again", breaks: "a head that may not go leaves room for the others",
		file: "relay/internal/dispatch/trial.go", old: "case more && !read[w.headID]:", new: "case more:",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadOfAFailedKeyLeavesRoomForOthers$",
	},
	{
		name: "head that is gone keeps its key", breaks: "a key goes on after another session has relayed or discarded its head",
		file: "relay/internal/dispatch/trial.go", old: "			d.headGone(w)\n", new: "			d.later(w, now.Add(time.Second))\n",
		pkg: "./relay/internal/dispatch", tests: "^TestKeyGoesOnWhenItsHeadIsGone$",
	},
	{
		name:   "key opened although rows were passed over",
		breaks: "a key is open only if no row of it was passed over since the scan began",
		file:   "relay/internal/dispatch/catchup.go", old: "		case w.next != nothing:\n", new: "		case false:\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "scan begins after a row that was passed over", breaks: "a scan begins before all rows that it has to bring",
		file: "relay/internal/dispatch/catchup.go", old: "	d.catch.low = min(d.catch.low, from)\n}\n",
		new: "	d.catch.low = min(d.catch.low, from+1)\n}\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name:   "row that was passed over not noted",
		breaks: "a scan begins before all rows that it has to bring, including the row that was passed over last",
		file:   "relay/internal/dispatch/catchup.go", old: "		w.low = min(w.low, low)\n		if",
		new: "		w.low = min(w.low, low+1)\n		if",
		pkg: "./relay", tests: schedules,
	},
	{
		name:   "row passed over during a scan not noted",
		breaks: "the next scan brings the rows of a key that were passed over during its scan",
		file:   "relay/internal/dispatch/catchup.go", old: "		w.next = min(w.next, low)\n", new: "		_ = low\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "abandoned scan counted as complete", breaks: "after a scan was given up, the next one brings its rows",
		file: "relay/internal/dispatch/catchup.go", old: "			d.cover(w, min(w.low, w.next))\n			d.void = true\n		}\n",
		new: "		}\n",
		pkg: "./relay/internal/dispatch", tests: "^TestScanThatIsGivenUpIsMadeAgain$",
	},
	{
		name: "abandoned scan forgets rows without a key", breaks: "after a scan was given up, the next one brings its rows",
		file: "relay/internal/dispatch/catchup.go", old: "	d.catch.want(d.catch.extent, from)\n	for", new: "	for",
		pkg: "./relay/internal/dispatch", tests: "^TestScanThatIsGivenUpIsMadeAgain$",
	},
	{
		name: "scan goes on after a row that it leaves out", breaks: "a scan brings no row of a key after a row that it leaves out",
		file: "relay/internal/dispatch/admit.go",
		old:  "		if w.stopped = w.stopped || from == fromScan && d.catch.covers(w); from != fromScan {\n",
		new:  "		if from != fromScan {\n",
		pkg:  "./relay/internal/dispatch", tests: "^TestScanEndsForAKeyAtWhatItLeavesOut$",
	},
	{
		name: "outage outlives its rows", breaks: "a replica whose rows have expired or gone to another one is ready while its broker is reached",
		file: "relay/internal/dispatch/dispatch.go", old: "	d.outageWithoutRows(now)\n", new: "",
		pkg: "./relay/internal/dispatch", tests: "^TestOutageWithoutRowsIsOver$",
	},
	{
		name: "tail scan takes what a catch-up scan has to bring", breaks: "a key is closed to the tail scan until a catch-up scan has passed",
		file: "relay/internal/dispatch/admit.go", old: "(from == fromScan || d.scannedPast(r))",
		new: "true",
		pkg: "./relay/internal/dispatch", tests: "^TestTailScanTakesNothingThatAScanHasToBring$",
	},
	{
		name: "scan brings keys that it does not cover", breaks: "a scan brings a key's rows only if it began since the key may go on",
		file: "relay/internal/dispatch/catchup.go", old: "c.under && w.state == catching && w.covered == c.number",
		new: "c.under && w.state == catching",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "scan of some keys leaves out other rows", breaks: "a scan reads only some keys only if it has no other rows to bring",
		file: "relay/internal/dispatch/catchup.go", old: "c.extent == andKeyless", new: "false",
		pkg: "./relay/internal/dispatch", tests: "^TestScanOfRowsWithoutAKey$",
	},
	{
		name:   "scan of some keys leaves out a row without a key that waits for it",
		breaks: "a scan reads only some keys only if it has no other rows to bring",
		file:   "relay/internal/dispatch/catchup.go", old: "			null = true\n", new: "			_ = w\n",
		pkg: "./relay/internal/dispatch", tests: "^TestScanOfRowsWithoutAKey$",
	},
	{
		name: "scan without keys ends before rows without a key", breaks: "a scan ends early only if it has no rows without a key to bring",
		file: "relay/scan.go", old: "len(keys) == 0 && !null:", new: "len(keys) == 0:",
		pkg: "./relay", tests: "^TestRowsWithoutAKeyFlowInSmallPages$",
	},
	{
		name:   "rows without a key looked for at any price",
		breaks: "the database looks for rows to which no index leads for a moment only",
		file:   "relay/scan.go", old: "q.NullKey || ", new: "", pkg: "./relay", tests: "^TestRowsAreNotLookedForAtAnyPrice$",
	},
	{
		name: "rows looked for again and again", breaks: "where a row is far away, the database does not look for it all the time",
		file: "relay/scan.go", old: "r.query.Limit == 1 {", new: "false {", pkg: "./relay", tests: "^TestRowsAreNotLookedForAtAnyPrice$",
	},
	{
		name: "rows not looked for after a full page was too much", breaks: "where rows are far apart, the database looks for fewer",
		file: "relay/scan.go", old: "r.query.Limit == 1 {", new: "true {", pkg: "./relay", tests: "^TestRowsAreNotLookedForAtAnyPrice$",
	},
	{
		name: "search for rows counted as trouble", breaks: "the database is in no trouble if it does not find in time what it need not find",
		file: "relay/readtaken.go", old: "!(tooFar && outbox.Cancelled(r.err))", new: "true",
		pkg: "./relay", tests: "^TestRowsAreNotLookedForAtAnyPrice$",
	},
	{
		name: "scan of some keys again after one that was given up", breaks: "the scan after one that was given up for its keys is of all keys",
		file: "relay/internal/dispatch/catchup.go", old: "		c.extent = whole\n", new: "",
		pkg: "./relay/internal/dispatch", tests: "^TestPagesOfAScanDoNotChangeToAllKeys$",
	},
	{
		name: "read of failed rows misses a failure that is being written", breaks: "a key is blocked from when its failure is written",
		file: "relay/internal/dispatch/failures.go", old: "		if r.blocks {\n", new: "		if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestKeyThatARowWithAvailableAtBlocks$",
	},
	{
		name: "page of all keys after one of some", breaks: "a scan takes no row of a key whose older rows it may not have read",
		file: "relay/internal/dispatch/catchup.go", old: "c.some && keys == nil {", new: "false {",
		pkg: "./relay/internal/dispatch", tests: "^TestPagesOfAScanDoNotChangeToAllKeys$",
	},
	{
		name: "scan done while a key goes on", breaks: "a scan ends early only if none of its keys can take more",
		file: "relay/internal/dispatch/catchup.go", old: "		if d.goes(w) {\n", new: "		if d.goes(w) && len(d.waits.catching) == 1 {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestScanIsDoneWhenItsKeysHaveStopped$",
	},
	{
		name: "scan stops a key of the next scan", breaks: "a scan stops only its own keys",
		file: "relay/internal/dispatch/admit.go", old: "from == fromScan && d.catch.covers(w); from", new: "from == fromScan; from",
		pkg: "./relay/internal/dispatch", tests: "^TestKeyOfTheNextScanIsNotStopped$",
	},
	{
		name: "held rows handed over", breaks: "while one row tries a hold, no other row with its fate is handed over",
		file: "relay/internal/dispatch/dispatch.go", old: "d.holds.of(r) != nil && r.wait == nil:",
		new: "d.holds.of(r) != nil && r.wait == nil && false:",
		pkg: "./relay/internal/dispatch", tests: "^TestHoldTakesNothingMore$",
	},
	{
		name: "held rows admitted", breaks: "while one row tries a hold, no other row with its fate is taken",
		file: "relay/internal/dispatch/admit.go", old: "	case h == nil, tries && w.hold == h:\n",
		new: "	case h == nil, w == nil, tries && w.hold == h:\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHoldTakesNothingMore$",
	},
	{
		name: "held keys read again and again", breaks: "a key that is held stays closed to all reads",
		file: "relay/internal/dispatch/admit.go", old: "		return false // the row is the head\n",
		new: "		return w.state == held // the row is the head\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadOfAHeldKeyIsNotTaken$",
	},
	{
		name: "end of a hold frees one key", breaks: "when a hold ends, all keys that waited for it go on",
		file: "relay/internal/dispatch/hold.go", old: "		case w.state == held:\n			w.low",
		new: "		case w.state == held && w.trial != nil:\n			w.low",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "rows without a key forgotten by a hold", breaks: "rows without a key that met a hold go on when it ends",
		file: "relay/internal/dispatch/hold.go", old: "	d.catch.want(andKeyless, h.low)\n	if", new: "	if",
		pkg: "./relay/internal/dispatch", tests: "^TestEndOfAHoldBringsRowsWithoutAKey$",
	},
	{
		name: "hold without a probe", breaks: "a hold whose probe is gone is tried by another key",
		file: "relay/internal/dispatch/hold.go", old: "	if hs.has(h) && !h.halfOpen {\n", new: "	if false {\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "half-open hold admits nothing", breaks: "a hold that no key waits for is tried by the next row",
		file: "relay/internal/dispatch/admit.go", old: "	case h.halfOpen && h.probe == nil &&", new: "	case false && h.probe == nil &&",
		pkg: "./relay/internal/dispatch", tests: "^TestHalfOpenHold$",
	},
	{
		name: "half-open hold kept although none of its rows is left", breaks: "a hold ends if a scan meets none of its rows",
		file: "relay/internal/dispatch/hold.go", old: "		if h.halfOpen && h.probe == nil && h.scan < d.catch.number {\n",
		new: "		if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHalfOpenHold$",
	},
	{
		name: "rows without a key wait for a partition", breaks: "rows without a key neither wait for a partition nor try it",
		file: "relay/internal/dispatch/hold.go", old: "	if !named || r.key.keyless &&", new: "	if !named || false &&",
		pkg: "./relay/internal/dispatch", tests: "^TestRowWithoutAKeyWaitsForNoPartition$",
	},
	{
		name: "scans without a rest", breaks: "a scan that brings few rows leaves time for other reads",
		file: "relay/scan.go", old: "	scanRest = 3\n", new: "	scanRest = 0\n",
		pkg: "./relay", tests: "^TestScanThatBringsLittleRests$",
	},
	{
		name: "rows of a failed key taken", breaks: "rows that wait for a failed row of their key take no room",
		file: "relay/internal/dispatch/admit.go", old: "	if d.Failures.passOver(r) {\n", new: "	if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestQueuedRowsOfAFailedKey$",
	},
	{
		name: "two heads try a hold", breaks: "one head at a time tries what is in trouble",
		file: "relay/internal/dispatch/hold.go", old: "		if h.tries() {\n", new: "		if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadThatTriesGoesOnWithItsHold$",
	},
	{
		name: "rows of an abandoned scan kept", breaks: "rows that the next scan brings again take no room",
		file: "relay/internal/dispatch/catchup.go", old: "			d.cover(w, min(w.low, w.next))\n			d.void = true\n		}\n",
		new: "			d.cover(w, min(w.low, w.next))\n		}\n",
		pkg: "./relay/internal/dispatch", tests: "^TestRowsOfAScanThatIsGivenUpKeepTheirOrder$",
	},
	{
		name: "hold that loses its probe to another", breaks: "a hold is tried as long as keys wait for it",
		file: "relay/internal/dispatch/hold.go", old: "	if before != nil && before.probe == w {\n", new: "	if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestProbeThatAHalfOpenHoldTakesIsReplaced$",
	},
	{
		name: "half-open hold without room ends", breaks: "rows without a key that wait for a hold are not forgotten",
		file: "relay/internal/dispatch/hold.go", old: "			if h.halfOpen { // the row", new: "			if false { // the row",
		pkg: "./relay/internal/dispatch", tests: "^TestHalfOpenHoldIsNotForgottenWhenThereIsNoRoomForItsProbe$",
	},
}
