package main

// late breaks the rules that keep the order of keys where rows are committed late or changed by others, and where reads begin again.
var late = []mutant{
	{
		name: "recent reads begin after all gaps", breaks: "a recent read begins before whatever may be committed late",
		file: "relay/internal/late/runs.go", old: "return all[0].last + 1", new: "return all[len(all)-1].last + 1",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "rows that a catch-up scan left out not read again", breaks: "the next tail scan brings what a catch-up scan has left out",
		file: "relay/internal/late/keys.go", old: "c.leftByScan = c.leftByScan || scan", new: "_ = scan",
		pkg: "./relay", tests: "^TestRowsWithoutAKey(Changed|MarkedElsewhere)DuringAScan$",
	},
	{
		name: "late row queued last", breaks: "a row that commits late goes before the younger ones that still wait",
		file: "relay/internal/dispatch/admit.go", old: "		l.insert(r)\n", new: "		l.push(r)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "changed row overtaken", breaks: "a row that is changed during a tail scan keeps its place in its key",
		file: "relay/internal/dispatch/admit.go", old: "	if !overtakes || r.key.keyless {\n", new: "	if overtakes || !overtakes {\n",
		pkg: "./relay", tests: "^TestRowsChangedDuringATailScan$",
	},
	{
		name:   "what was left to a tail scan forgotten when it begins",
		breaks: "other reads take nothing younger than what the present tail scan has to bring",
		file:   "relay/internal/late/keys.go", old: "	if !overtakes && !tail {\n", new: "	if false && !overtakes && !tail {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestReconciliationDoesNotOvertakeWhatIsLeftToATailScan$",
	},
	{
		name:   "row before a head goes before what was left to a tail scan",
		breaks: "rows of one transaction keep their order, whatever their key waits for",
		file:   "relay/internal/dispatch/admit.go", old: "		w.low = min(w.low, d.below(first)) // but not", new: "		_ = first // but not",
		pkg: "./relay", tests: "^TestLateRowsOfOneTransaction$",
	},
	{
		name:   "tail scan begins after what an unfinished one had to bring",
		breaks: "what was left to a tail scan is brought by the next one if it has not reached its end",
		file:   "relay/internal/late/late.go", old: "left := min(c.tailLeft.lowest, c.owed.lowest)", new: "left := c.tailLeft.lowest",
		pkg: "./relay/internal/late", tests: "^TestReadBeginsAtTheFirstGap$",
	},
	{
		name:   "catch-up scan begins after what the tail scan has to bring",
		breaks: "a catch-up scan meets the rows of its keys from the first on",
		file:   "relay/internal/late/late.go", old: "low.highest, c.tailLeft.lowest, c.owed.lowest)", new: "low.highest, c.tailLeft.lowest)",
		pkg: "./relay/internal/late", tests: "^TestNextTailScanBeginsBeforeWhatWasLeftOut$",
	},
	{
		name: "row committed during a scan taken", breaks: "a scan leaves out rows that were committed after it began",
		file: "relay/internal/dispatch/admit.go", old: "	case r.Beyond:\n		if w.stopped",
		new: "	case r.Beyond && from != fromScan:\n		if w.stopped",
		pkg: "./relay/internal/dispatch", tests: "^TestScanEndsForAKeyAtWhatItLeavesOut$",
	},
	{
		name:   "row left out not noted for a key that waits",
		breaks: "a younger row is not published before a row that the tail scan left out",
		file:   "relay/internal/dispatch/admit.go", old: "			d.Late.LeaveOut(r.Hash, r.Position.Ordinal, false) // a scan may",
		new: "			_ = r // a scan may",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name:   "late row goes before a failure that blocks",
		breaks: "a key is blocked from when the failure of one of its rows is written",
		file:   "relay/internal/dispatch/answer.go", old: "		r.blocks, d.void = true, true\n		d.Failures.fails(r)\n", new: "		r.blocks = true\n",
		pkg: "./relay/internal/dispatch", tests: "^TestLateRowOfAKeyThatIsBeingBlocked$|^TestKeyThatARowWithAvailableAtBlocks$",
	},
	{
		name:   "row of a shard that came back",
		breaks: "a row whose shard was lost for a time goes only after what was forgotten with the shard",
		file:   "relay/internal/dispatch/answer.go", old: "	if again && !r.left {", new: "	if again {",
		pkg: "./relay/internal/dispatch", tests: "^TestRowOfAShardThatCameBack$",
	},
	{
		name: "declined page overtaken", breaks: "no row is published before an older row of its key in a page that was not taken",
		file: "relay/internal/dispatch/admit.go", old: "			d.passKey(r.key, r.Hash, r.Shard, d.below(low(r)), now)\n",
		new: "			_ = now\n",
		pkg: "./relay/internal/dispatch", tests: "^TestNothingGoesBeforeARowThatWasSeen$",
	},
	{
		name:   "head tried before a row of a declined page",
		breaks: "no head is tried before an older row of its key in a page that was not taken, also if nothing of the key is under way",
		file:   "relay/internal/dispatch/admit.go", old: "!is && w == nil || ", new: "!is || ",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadWaitsForWhatLiesBeforeIt$",
	},
	{
		name:   "head tried before a row that was seen",
		breaks: "a row that lies before a head is published first, even if its page was not taken",
		file:   "relay/internal/dispatch/admit.go", old: "	case w.state != catching && at < w.head:\n",
		new: "	case w.state != catching && w.headID == \"\":\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadWaitsForWhatLiesBeforeIt$",
	},
	{
		name:   "head tried before a row that was left out",
		breaks: "a row that lies before a head is published first, even if it was left to the next tail scan",
		file:   "relay/internal/dispatch/admit.go", old: "		d.passBefore(w, at)\n		return false\n", new: "		d.passOver(w, at)\n		return false\n",
		pkg: "./relay/internal/dispatch", tests: "^TestHeadGoesAfterWhatIsLeftOutBeforeIt$",
	},
	{
		name:   "key with a row on the wire opened",
		breaks: "when the tail scan begins again, a row on the wire that comes back waits for what was passed over",
		file:   "relay/internal/dispatch/catchup.go", old: "		if busy[w] {\n", new: "		if false {\n",
		pkg: "./relay/internal/dispatch", tests: "^TestRowOnTheWireDoesNotOvertakeWhenTheTailScanBeginsAgain$",
	},
	{
		name:   "row in flight not left out",
		breaks: "a row in flight that looks new is left to the next tail scan, after the tail scan has begun again",
		file:   "relay/internal/dispatch/admit.go", old: "r.Beyond && from != fromScan && !known {", new: "false && !known {",
		pkg: "./relay/internal/dispatch", tests: "^TestRowOnTheWireThatLooksNewIsNotOvertaken$",
	},
	{
		name: "long transaction forgotten", breaks: "the end of a tail scan does not forget a long transaction that ended during it",
		file: "relay/internal/late/late.go", old: "c.lowered && !c.brings", new: "false",
		pkg: "./relay/internal/late", tests: "^TestLongTransactionThatEndsDuringATailScan$",
	},
	{
		name:   "row on the wire goes before what a scan brings",
		breaks: "a row that was not sent waits for a catch-up scan that brings an older one",
		file:   "relay/internal/dispatch/dispatch.go", old: "		return low(r) > d.below(w.next) || !d.brought(w, r)\n",
		new: "		return low(r) > d.below(w.next)\n",
		pkg: "./relay/internal/dispatch", tests: "^TestRowOnTheWireGoesAfterWhatTheScanBrings$",
	},
	{
		name: "row goes after a head with its order value", breaks: "rows with the same order value keep their order",
		file: "relay/internal/dispatch/waits.go", old: "	return r.number < w.number\n", new: "	return false\n",
		pkg: "./relay/internal/dispatch", tests: "^TestRowDoesNotWaitForAHeadAfterItWithTheSameOrderValue$",
	},
	{
		name:   "late row goes after a head with its order value",
		breaks: "a row that is committed late goes before a head with the same order value",
		file:   "relay/internal/dispatch/waits.go", old: "	case d.Table.Before(r.Position, head):", new: "	case false:",
		pkg: "./relay/internal/dispatch", tests: "^TestLateRowGoesBeforeAHeadWithTheSameOrderValue$",
	},
	{
		name:   "rows with one order value taken for one",
		breaks: "what was passed over lies before all rows with its order value but itself",
		file:   "relay/internal/dispatch/waits.go", old: "	return max(at, everything+1) - 1\n", new: "	return at\n",
		pkg: "./relay/internal/dispatch", tests: "^TestRefusedRowGoesAfterAPassedOneWithItsOrderValue$",
	},
	{
		name:   "refused row goes before what a scan brings",
		breaks: "a row that is refused goes after an older one that a scan is on its way to",
		file:   "relay/internal/dispatch/head.go", old: "		if !d.catch.covers(w) || !d.brought(w, r) {", new: "		if !d.catch.covers(w) {",
		pkg: "./relay/internal/dispatch", tests: "^TestRefusedRowGoesAfterWhatTheScanBrings$",
	},
	{
		name:   "head being written forgets a lost shard",
		breaks: "a head whose refusal is written while its shard is lost goes after what was forgotten",
		file:   "relay/internal/dispatch/shards.go", old: "			w.older = true // queued", new: "			_ = w // queued",
		pkg: "./relay/internal/dispatch", tests: "^TestShardWonBackWhileARefusalIsWritten$",
	},
	{
		name:   "refused row of a shard that came back",
		breaks: "a row that is refused goes only after what was forgotten when its shard was lost for a time",
		file:   "relay/internal/dispatch/written.go", old: "	case w.older || r.left ||", new: "	case w.older ||",
		pkg: "./relay/internal/dispatch", tests: "^TestRefusedRowOfAShardWonBackIsReadAgain$",
	},
	{
		name:   "row that comes back overtaken by one with its order value",
		breaks: "rows with the same order value keep their order after a pause",
		file:   "relay/internal/dispatch/dispatch.go", old: "		return low(r) >= w.low\n", new: "		return low(r) > w.low\n",
		pkg: "./relay/internal/dispatch", tests: "^TestRowThatComesBackGoesBeforeAQueuedOneWithTheSameOrderValue$",
	},
	{
		name: "row that comes back overtaken without an order value", breaks: "rows keep their order after a pause, whatever gives it",
		file: "relay/internal/dispatch/answer.go", old: "	case w != nil && (w.state", new: "	case false && (w.state",
		pkg: "./relay/internal/dispatch", tests: "^TestRowThatComesBackAfterAPauseIsNotOvertaken$",
	},
}
