package main

// engine breaks the other rules of the engine: its reads, answers, ownership, writes and limits.
var engine = []mutant{
	{
		name: "mark without an effect counted as written", breaks: "rows that cannot be marked are not published again and again",
		file: "relay/internal/settle/write.go", old: "			maps.Copy(o.Unwritten, unwritten)\n", new: "			maps.Copy(map[string]error{}, unwritten)\n",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "marks are not rehearsed", breaks: "no restart publishes a row again because its mark cannot be written",
		file: "relay/internal/engine/rehearsal.go", old: "	return e.unproven > 0 || e.held", new: "	return false && e.held",
		pkg: "./relay", tests: "^TestNothingIsPublishedThatCannotBeMarked$",
	},
	{
		name: "locked rows count as tried", breaks: "no restart publishes a row again because its mark cannot be written",
		file: "sql/rehearse.sql", old: "when sqlstate 'ORB00' then null;", new: "when sqlstate 'ORB00' or lock_not_available then null;",
		pkg: "./internal/outbox", tests: "^TestRehearse$",
	},
	{
		name: "a rehearsal waits for no lock", breaks: "destinations do not withhold the same rows from each other",
		file: "sql/rehearse.sql", old: "for n in 1 .. 10 loop", new: "for n in 1 .. 0 loop",
		pkg: "./internal/outbox", tests: "^TestRehearseWaitsForAMoment$",
	},
	{
		name:   "a lock of a moment makes all rows be rehearsed",
		breaks: "destinations do not withhold the same rows from each other",
		file:   "relay/internal/engine/rehearsal.go", old: "		cause = causeOrder\n", new: "",
		pkg: "./relay/internal/engine", tests: "^TestLockedRowIsRehearsedAlone$",
	},
	{
		name: "no lease deadline", breaks: "nothing is published after the lease deadline",
		file: "relay/worker.go", old: "		deadline = trusted\n", new: "		_ = trusted\n",
		pkg: "./relay", tests: "^TestTrustEndsCalls$",
	},
	{
		name:   "mark written to the columns of another destination",
		breaks: "a mark is written for the destination that has accepted the row, and no other",
		file:   "relay/internal/settle/order.go", old: "append(o.states, g.from.state)", new: "append(o.states, 0)",
		pkg: "./relay", tests: schedules,
	},
	{
		name: "row done when one of two destinations has it", breaks: "a row that one destination has marked is still marked for the other",
		file: "relay/internal/settle/order.go", old: "o.joint() && (o.Err != nil || len(o.Unwritten) > 0)", new: "o.joint() && o.Err != nil",
		pkg: "./relay", tests: "^TestMarksOfTwoDestinations$",
	},
	{
		name: "marks of one destination written for all", breaks: "a row is marked for those destinations that have accepted it",
		file: "relay/internal/settle/joint.go", old: "|= 1 << state\n", new: "|= 1<<len(ready) - 1\n",
		pkg: "./relay", tests: "^TestMarksOfTwoDestinations$",
	},
	{
		name: "no pause after slow joint marks", breaks: "a slow trigger of one destination does not slow down another",
		file: "relay/internal/settle/settlement.go", old: " && !time.Now().Before(s.apart) {", new: " {",
		pkg: "./relay/internal/settle", tests: "^TestSlowJointMarksAreFollowedByOthers$",
	},
	{
		name: "row written for two destinations at a time", breaks: "two destinations never wait for each other's locks",
		file: "relay/internal/settle/order.go", old: "		s.taken[r.ID()] = struct{}{}\n", new: "		_ = r\n",
		pkg: "./relay/internal/settle", tests: "^TestRowIsWrittenForOneDestinationAtATime$",
	},
	{
		name: "row tried again while it is written", breaks: "two destinations never wait for each other's locks",
		file: "relay/internal/settle/settlement.go", old: "return !slices.ContainsFunc(o.Rows, s.has)", new: "return true",
		pkg: "./relay/internal/settle", tests: "^TestRowIsWrittenForOneDestinationAtATime$",
	},
	{
		name: "rows of one engine reported to another", breaks: "each engine learns the outcome of its own rows",
		file: "relay/internal/settle/order.go",
		old:  "		result.Rows = rows\n", new: "		_ = rows\n",
		pkg: "./relay/internal/settle", tests: "^TestEnginesLearnOfTheirOwnRows$",
	},
	{
		name:   "shard released while another destination has rows in flight",
		breaks: "a shard is released only when no engine has rows of it in flight",
		file:   "relay/engines.go", old: "			left = left.And(other.left)\n", new: "",
		pkg: "./relay", tests: "^TestShardIsReleasedByAllDestinations$",
	},
	{
		name: "shard let go of before it was to stay", breaks: "letting go of a shard once does not count the next time",
		file: "relay/engines.go", old: "	l.left = l.left.And(state.Leaving) // before", new: "	// before",
		pkg: "./relay", tests: "^TestShardIsReleasedByAllDestinations$",
	},
	{
		name: "the whole rate for each replica", breaks: "a rate is divided among the replicas",
		file: "relay/internal/engine/limiter.go", old: "return e.Rate * float64(e.shards.active.Len()) / float64(e.Shards)", new: "return e.Rate",
		pkg: "./relay", tests: "^TestRateOfAllReplicas$",
	},
	{
		name: "a clock that is read twice empties the bucket", breaks: "a rate of a row a second or less publishes rows",
		file: "relay/internal/engine/limiter.go", old: "	if now.Before(e.filled) {\n", new: "	if false {\n",
		pkg: "./relay/internal/engine", tests: "^TestClocksOfCallers$",
	},
}
