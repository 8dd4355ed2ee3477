package main

// table breaks rules of the table, of the statements and of the publishers.
var table = []mutant{
	{
		name: "refusal written over another's", breaks: "a refusal is written only to a row that is as it was read",
		file: "sql/refuse.sql", old: " and {unchanged}\n  for", new: "\n  for",
		pkg: "./internal/outbox", tests: ".",
	},
	{
		name: "row marked for the version of another one", breaks: "a mark is for the version of the row that was read",
		file: "sql/as_read.sql", old: "unnest($1::{identity_type}[], $2::xid[]) as read (row, version)",
		new: "unnest($1::{identity_type}[]) as a (row), unnest($2::xid[]) as b (version)",
		pkg: "./internal/outbox", tests: "^TestSettleMarksWhatWasRead$|^TestRowsWithOneID",
	},
	{
		name: "prefix rule ignored by NATS", breaks: "the rows accepted of a key are a prefix",
		file: "publisher/nats/call.go", old: "n != keyorder.None && accepted(err) {", new: "n != keyorder.None {",
		pkg: "./publisher/nats", tests: "^TestRefusedMessageStopsItsKey$|^TestSuite$",
	},
	{
		name: "message ids of other databases", breaks: "no two rows of a stream have the same id",
		file: "internal/outbox/table.go", old: "seen.prefix = origin + \"/\" + ", new: "seen.prefix = ",
		pkg: "./internal/outbox", tests: "^TestDedupIDsAreApart$",
	},
	{
		name: "state of one destination written to another", breaks: "a destination with columns of its own keeps its state only in them",
		file: "internal/outbox/columns.go", old: "		names, setting = v.Columns, ", new: "		_, setting = v.Columns, ",
		pkg: "./internal/outbox", tests: "^TestColumnsOfItsOwn$",
	},
	{
		name:   "row taken away by a destination with other columns",
		breaks: "a destination with columns of its own gets every row that it takes",
		file:   "internal/route/view.go", old: "earlier.SameColumns(to.View)",
		new: "to.SameColumns(to.View)",
		pkg: "./relay", tests: "^TestViewsOfOrigins$",
	},
	{
		name:   "mark of another destination taken for a late commit",
		breaks: "a marked row is distinguished from late commits by the transaction that inserted it",
		file:   "sql/certain.sql", old: "case when {txid} <", new: "case when null::xid8 <",
		pkg: "./internal/outbox", tests: "^TestRowsThatAnotherDestinationMarksFirst$",
	},
	{
		name: "destination added later replays history", breaks: "rows that exist count as done at a new destination",
		file: "sql/destination_all.sql", old: " default 'epoch'", new: "",
		pkg: "./internal/outbox", tests: "^TestOwnSchema$",
	},
	{
		name: "dead letter before the failure", breaks: "a dead letter is sent when the row has failed",
		file: "internal/outbox/mapping.go", old: "m.Came = m.Order.Name + \" is not null\"", new: "m.Came = pattern.Always",
		pkg: "./internal/outbox", tests: "^TestDeadLetters$",
	},
	{
		name: "dead letter marked for another failure", breaks: "a mark is written only for the failure that was read",
		file: "internal/outbox/mapping.go", old: "		parts = append(parts, word(prefix, m.Order))\n",
		new: "		parts = append(parts, \"''\")\n",
		pkg: "./internal/outbox", tests: "^TestDeadLetters$",
	},
	{
		name: "second failure without a dead letter", breaks: "a row that fails again is sent to its dead letters again",
		file: "internal/outbox/statements.go", old: "t.unsent(\"%[1]s = case when r.failed then %[2]s", new: "t.unsent(\"%[1]s = case when false then %[2]s",
		pkg: "./internal/outbox", tests: "^TestDeadLetters$",
	},
	{
		name:   "dead letters of one of the destinations that divide the rows",
		breaks: "the statement that writes failures of several destinations is about the dead letters of each",
		file:   "internal/outbox/view.go", old: "other.FailedOf.SameColumns(v)", new: "other.FailedOf.Name == v.Name",
		pkg: "./internal/outbox", tests: "^TestDeadLettersOfDividedRows$",
	},
	{
		name: "dead letters of another destination", breaks: "only what has failed at the origin is its dead letter",
		file: "internal/outbox/view.go", old: " || c.divided(*origin)", new: "",
		pkg: "./internal/outbox", tests: "^TestOriginsThatShareColumns$",
	},
	{
		name: "transaction after the snapshot not noticed", breaks: "the end of each long transaction is noticed",
		file: "internal/outbox/visible.go", old: "	for n := v.Next; n < later.Next; n++ {", new: "	for n := v.Next; n < v.Next; n++ {",
		pkg: "./internal/outbox", tests: "^TestVisibleKnowsTheNextNumber$",
	},
	{
		name:   "retried row whose dead letter counts as sent",
		breaks: "a row that is retried has its next dead letter, whichever replica fails it",
		file:   "internal/operate/change.go", old: " = null\"}, n.Unsent(), fresh(n))", new: " = null\"}, fresh(n))",
		pkg: "./internal/operate", tests: "^TestOwnColumns$",
	},
	{
		name: "row discarded for all destinations", breaks: "a row that another destination has not done is not deleted",
		file: "internal/operate/change.go", old: "			all += \" and \" + done(", new: "			_ = done(",
		pkg: "./internal/operate", tests: "^TestOwnColumns$",
	},
	{
		name:   "row discarded that a stranger waits for",
		breaks: "no row is deleted for which a destination may wait that is not configured here",
		file:   "internal/operate/change.go", old: "		return \"false\"\n", new: "		_ = \"false\"\n",
		pkg: "./internal/operate", tests: "^TestDiscardBesideAStranger$",
	},
	{
		name:   "relayed row deleted that a stranger waits for",
		breaks: "no row is deleted for which a destination may wait that is not configured here",
		file:   "internal/outbox/stranger.go", old: "	if !m.config.Delete || len(strangers) == 0 {\n",
		new: "	if true {\n", pkg: "./relay", tests: "^TestDeletesNothingThatOthersWaitFor$",
	},
	{
		name:   "destinations not compared",
		breaks: "replicas that divide the rows of the same columns differently never own side by side",
		file:   "internal/outbox/group.go", old: "append(of[g.Column], m.taking(v))", new: "append(of[g.Column], m.mapping())",
		pkg: "./relay", tests: "^TestDestinationAloneGoesByItsTopics$",
	},
	{
		name:   "notice of a row that was not relayed",
		breaks: "notices are sent of rows that the origin has relayed, not of rows that failed there",
		file:   "internal/outbox/mapping.go", old: "m.Relayed, m.Failed, m.without}", new: "m.Relayed, m.Failed}",
		pkg: "./internal/outbox", tests: "^TestRelayedElsewhere$",
	},
	{
		name: "prefix rule ignored by RabbitMQ", breaks: "the rows accepted of a key are a prefix",
		file: "publisher/amqp/batch.go", old: "; next != keyorder.None && err == nil {\n",
		new: "; next != keyorder.None {\n",
		pkg: "./publisher/amqp", tests: "^TestSuite$",
	},
	{
		name: "returned message taken for accepted", breaks: "an unroutable message is not accepted, although RabbitMQ confirms it",
		file: "publisher/amqp/settle.go", old: "		case f.returned == nil && f.confirm.Acked():\n", new: "		case f.confirm.Acked():\n",
		pkg: "./publisher/amqp", tests: "^TestReturnedIsNeverAccepted$",
	},
}
