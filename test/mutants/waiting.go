package main

// waiting breaks the rules by which the engine treats keys: which rows go, which wait, and in which order.
var waiting = []mutant{
	{
		name: "mark before the acknowledgement", breaks: "a row is marked only after the broker has it",
		file: "relay/internal/dispatch/dispatch.go", old: "		rows = append(rows, r)\n		bytes += r.Size\n",
		new: "		rows = append(rows, r)\n		bytes += r.Size\n		d.settle = append(d.settle, r)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "random worker", breaks: "one worker for each key",
		file: "relay/internal/dispatch/admit.go", old: "r.worker = int(r.lane() % uint64(d.workers()))",
		new: "r.worker = len(d.inFlight) % d.workers()",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "late row queued last", breaks: "a row that commits late goes before the younger ones that still wait",
		file: "relay/internal/dispatch/admit.go", old: "		l.insert(r)\n", new: "		l.push(r)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "wait not rebuilt after a restart", breaks: "a wait that began before a restart ends when it would have ended without",
		file: "relay/internal/dispatch/admit.go", old: "	case rest > 0:\n", new: "	case rest > 0 && w != nil:\n",
		pkg: "./relay", tests: "^TestBackoffOutlivesARestart$",
	},
	{
		name: "changed row overtaken", breaks: "a row that is changed during a walk keeps its place in its key",
		file: "relay/internal/dispatch/admit.go", old: "	if !overtakes || r.key.keyless {\n", new: "	if overtakes || !overtakes {\n",
		pkg: "./relay", tests: "^TestRowsChangedDuringAWalk$",
	},
	{
		name: "what a scan left out forgotten when a walk begins", breaks: "a scan takes nothing younger than what it left to a walk",
		file: "relay/internal/late/keys.go", old: "	c.walkLeft.add(key, ordinal)\n	if scan {\n", new: "	c.walkLeft.add(key, ordinal)\n	if false && scan {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestScanDoesNotOvertakeWhatItLeftOut$",
	},
	{
		name:   "rows from a read that began before the shard came",
		breaks: "rows are taken only for shards held since before their read began",
		file:   "relay/internal/dispatch/admit.go", old: "	if !d.shards.reading.Has(r.Shard) {\n",
		new: "	if !d.shards.active.Has(r.Shard) {\n",
		pkg: "./relay", tests: "^TestReadsFromBeforeTheShardCameBringNothing$|^TestRandomShardMoves$",
	},
	{
		name: "waiting key passed", breaks: "behind a row that was refused or is held its key waits",
		file: "relay/internal/dispatch/admit.go", old: "	if w != nil && !d.mayPass(r, w, from) {\n",
		new: "	if w != nil && w.state == writing && !d.mayPass(r, w, from) {\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "queued rows go before their key does", breaks: "what is queued behind a head that waits is not published",
		file: "relay/internal/dispatch/dispatch.go", old: "		return w.bars(low(r))\n", new: "		return false\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "queued rows go before passed ones", breaks: "what is queued is not published before a row of its key that was passed over",
		file: "relay/internal/dispatch/dispatch.go", old: "		return w.bars(low(r))\n", new: "		return low(r) >= w.head\n",
		pkg: "./relay/internal/dispatch", tests: "^TestQueuedRowWaitsForTheOldestHead$",
	},
	{
		name:   "queued rows go before what the next scan brings",
		breaks: "what is queued of a key that waits for a scan does not go before what it brings",
		file:   "relay/internal/dispatch/dispatch.go", old: "		return low(r) > w.low\n", new: "		return false\n",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name:   "queued rows go before what the scan has left",
		breaks: "what a scan has brought is not published before what was passed over meanwhile",
		file:   "relay/internal/dispatch/dispatch.go", old: "		return low(r) > w.next\n", new: "		return false\n",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name: "queued rows of a failed key go", breaks: "OUTBOX_ON_FAILED=block, for rows that are queued, too",
		file: "relay/internal/dispatch/dispatch.go", old: "	case d.Failures.has(r):\n		return true\n",
		new: "	case false:\n		return true\n",
		pkg: "./relay/internal/dispatch", tests: "^TestQueuedRowsOfAFailedKey$",
	},
	{
		name: "dropped row forgotten", breaks: "what is dropped is read again",
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
		name: "head that is gone keeps its key", breaks: "a key goes on when its head was relayed or discarded by somebody else",
		file: "relay/internal/dispatch/trial.go", old: "			d.headGone(w)\n", new: "			d.later(w, now.Add(time.Second))\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name:   "key opened although rows were passed over",
		breaks: "a key is open only when nothing of it was passed over since the scan began",
		file:   "relay/internal/dispatch/catchup.go", old: "		case w.next != nothing:\n", new: "		case false:\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "scan begins behind a passed row", breaks: "a scan begins before all that it has to bring",
		file: "relay/internal/dispatch/catchup.go", old: "	d.catch.low = min(d.catch.low, from)\n}\n",
		new: "	d.catch.low = min(d.catch.low, from+1)\n}\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "passed row not noted", breaks: "a scan begins before all that it has to bring, also what was passed over last",
		file: "relay/internal/dispatch/catchup.go", old: "		w.low = min(w.low, low)\n		if",
		new: "		w.low = min(w.low, low+1)\n		if",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "row passed over during a scan not noted", breaks: "what is passed over of a key during its scan the next one brings",
		file: "relay/internal/dispatch/catchup.go", old: "		w.next = min(w.next, low)\n", new: "		_ = low\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "abandoned scan taken for a whole one", breaks: "what a scan that was given up was to bring the next one does",
		file: "relay/internal/dispatch/catchup.go", old: "			d.cover(w, min(w.low, w.next))\n", new: "			_ = w\n",
		pkg: "./relay/internal/dispatch", tests: "^TestScanThatIsGivenUpIsMadeAgain$",
	},
	{
		name: "abandoned scan forgets rows without a key", breaks: "what a scan that was given up was to bring the next one does",
		file: "relay/internal/dispatch/catchup.go", old: "	d.catch.wantOthers(from)\n	for", new: "	for",
		pkg: "./relay/internal/dispatch", tests: "^TestScanThatIsGivenUpIsMadeAgain$",
	},
	{
		name: "row committed during a scan taken", breaks: "a scan leaves out what was committed since it began",
		file: "relay/internal/dispatch/admit.go", old: "	case r.Beyond:\n		if w.stopped",
		new: "	case r.Beyond && from != fromScan:\n		if w.stopped",
		pkg: "./relay/internal/dispatch", tests: "^TestScanEndsForAKeyAtWhatItLeavesOut$",
	},
	{
		name: "scan goes on behind what it leaves out", breaks: "a scan brings nothing of a key behind a row that it leaves out",
		file: "relay/internal/dispatch/admit.go", old: "		if w.stopped = w.stopped || from == fromScan; from == FromWalk {\n",
		new: "		if from == FromWalk {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestScanEndsForAKeyAtWhatItLeavesOut$",
	},
	{
		name: "row left out not noted for a key that waits", breaks: "what is younger does not go before a row that the walk left out",
		file: "relay/internal/dispatch/admit.go", old: "			d.Late.LeaveOut(r.Hash, r.Position.Ordinal, false) // a scan may",
		new: "			_ = r // a scan may",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name: "walk takes what a scan has to bring", breaks: "a key is closed to the walk until the scan has come by",
		file: "relay/internal/dispatch/admit.go", old: "(from == fromScan || d.ordered() && d.Table.Before(r.Position, d.catch.at))",
		new: "true",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "scan brings keys that it does not cover", breaks: "a scan brings a key's rows only if it began since the key may go on",
		file: "relay/internal/dispatch/catchup.go", old: "c.under && w.state == catching && w.covered == c.number",
		new: "c.under && w.state == catching",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "scan of some keys alone leaves out others", breaks: "a scan reads some keys alone only if it has nothing else to bring",
		file: "relay/internal/dispatch/catchup.go", old: "!c.others && d.Table.KeyIndexed() {", new: "d.Table.KeyIndexed() {",
		pkg: "./relay/internal/dispatch", tests: "^TestScanOfFewKeys$",
	},
	{
		name: "declined page overtaken", breaks: "nothing goes before a row of its key in a page that was not taken",
		file: "relay/internal/dispatch/admit.go", old: "			d.passKey(r.key, r.Hash, r.Shard, low(r), now)\n",
		new: "			_ = now\n",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name: "held rows handed over", breaks: "nothing that shares the fate of a hold is handed over while one row tries it",
		file: "relay/internal/dispatch/dispatch.go", old: "h != nil && r.wait == nil {",
		new: "h != nil && r.wait == nil && false {",
		pkg: "./relay/internal/dispatch", tests: "^TestHoldTakesNothingMore$",
	},
	{
		name: "held rows admitted", breaks: "nothing that shares the fate of a hold is taken while one row tries it",
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
		name: "another key tries beside the one that does", breaks: "one row tries a hold",
		file: "relay/internal/dispatch/hold.go", old: "	if h.probe == w && h.index < 0 {", new: "	if h.index < 0 {",
		pkg: "./relay/internal/dispatch", tests: "^TestOneKeyTriesAHold$",
	},
	{
		name: "end of a hold frees one key", breaks: "when a hold ends all that waited for it goes on",
		file: "relay/internal/dispatch/hold.go", old: "		case w.state == held:\n			w.low",
		new: "		case w.state == held && w.trial != nil:\n			w.low",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "rows without a key forgotten by a hold", breaks: "rows without a key that met a hold go on when it ends",
		file: "relay/internal/dispatch/hold.go", old: "	d.catch.wantOthers(h.low)\n	if", new: "	if",
		pkg: "./relay/internal/dispatch", tests: "^TestEndOfAHoldBringsRowsWithoutAKey$",
	},
	{
		name: "hold without a probe", breaks: "a hold whose probe is gone is tried by another key",
		file: "relay/internal/dispatch/hold.go", old: "	if hs.byFate[h.fate] == h && !h.open {\n", new: "	if false {\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "half-open hold admits nothing", breaks: "a hold that no key waits for is tried by the next row",
		file: "relay/internal/dispatch/admit.go", old: "	case h.open && h.probe == nil &&", new: "	case false && h.probe == nil &&",
		pkg: "./relay/internal/dispatch", tests: "^TestHalfOpenHold$",
	},
	{
		name: "half-open hold of which nothing is left", breaks: "a hold of which a scan meets no row ends",
		file: "relay/internal/dispatch/hold.go", old: "		if h.open && h.probe == nil && h.opened < d.catch.number {\n",
		new: "		if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHalfOpenHold$",
	},
	{
		name: "rows without a key wait for a partition", breaks: "rows without a key neither wait for a partition nor try it",
		file: "relay/internal/dispatch/hold.go", old: "	if !named || r.key.keyless &&", new: "	if !named || false &&",
		pkg: "./relay/internal/dispatch", tests: "^TestRowWithoutAKeyWaitsForNoPartition$",
	},
	{
		name: "scans without a rest", breaks: "a scan that brings little leaves time to others",
		file: "relay/scan.go", old: "	scanRest = 3\n", new: "	scanRest = 0\n",
		pkg: "./relay", tests: "^TestScanThatBringsLittleRests$",
	},
	{
		name: "head tried before a row that was seen", breaks: "a row that lies before a head goes first, also when its page was not taken",
		file: "relay/internal/dispatch/admit.go", old: "	case w.state != catching && (w.headID == \"\" || from < w.head):\n",
		new: "	case w.state != catching && w.headID == \"\":\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadWaitsForWhatLiesBeforeIt$",
	},
	{
		name: "rows of a failed key taken", breaks: "what waits behind a failed row takes no room",
		file: "relay/internal/dispatch/admit.go", old: "	if d.Failures.meets(r) {\n", new: "	if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestQueuedRowsOfAFailedKey$",
	},
}
