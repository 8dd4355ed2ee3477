package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// VerifyRows is how many rows are compared at once. It bounds the memory.
const VerifyRows = 100_000

// VerifyMargin is how much earlier and later than the rows' times a broker is read: the clocks of the application, the
// database and the broker differ, and a row may be published again after its mark.
const VerifyMargin = 5 * time.Minute

// A Broker says where the messages of a destination can be read.
type Broker struct {
	publisher.Reader
	ID func(*publisher.Stored) string // the id of the row from which a message was made
	// Anytime says that the broker finds messages by times unrelated to the rows', so that all of it is read.
	Anytime bool
}

// Problems of a row.
const (
	ProblemMissing    = "missing"
	ProblemGone       = "gone" // the broker removes messages, and may have removed this one
	ProblemDuplicated = "duplicated"
	ProblemDisordered = "out_of_order"
	ProblemUnknown    = "not_compared" // the broker cannot say what it holds
)

// A Discrepancy is a row that its broker does not hold exactly once and in order. The names of its JSON fields are
// stable.
type Discrepancy struct {
	ID          string    `json:"id"`
	Destination string    `json:"destination"`
	Topic       string    `json:"topic"` // on the broker
	Problem     string    `json:"problem"`
	Why         string    `json:"why,omitempty"`
	RelayedAt   time.Time `json:"relayed_at"`
	Messages    int       `json:"messages"`           // number of messages with this id
	Place       string    `json:"place,omitempty"`    // the partition or stream of the first message
	Position    *uint64   `json:"position,omitempty"` // position in that partition or stream
	Before      string    `json:"before,omitempty"`   // an earlier row of the key whose message came after this one
}

// A Comparison counts the results for one destination. The names of its JSON fields are stable.
type Comparison struct {
	Destination string `json:"destination"`
	Rows        int64  `json:"rows"`
	Missing     int64  `json:"missing"`
	Gone        int64  `json:"gone"`
	Duplicated  int64  `json:"duplicated"`
	Disordered  int64  `json:"out_of_order"`
	Unknown     int64  `json:"not_compared,omitempty"`
	Unordered   bool   `json:"order_not_compared,omitempty"`
}

// Verify compares the relayed rows of a selection, whose times refer to relayed_at, with what the broker of a
// destination holds. The view needs its Topic. Discrepancies are reported in table order.
func (o *Outbox) Verify(ctx context.Context, view int, broker Broker, selection Selection,
	report func(Discrepancy) error,
) (Comparison, error) {
	n := o.Views[view]
	c := &comparison{broker: broker, report: report, Comparison: Comparison{
		Destination: o.nameOf(view), Unordered: n.Ranked() || n.Came != "",
	}}
	selection.Destination = c.Destination
	var conn *pgx.Conn
	picks, err := o.pick(selection, relayed)
	if err == nil {
		conn, err = o.list(ctx, chooseTime, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, n.Text("operate_verify.sql", "message_topic", o.Topics[view], "ordered",
				fmt.Sprint(!c.Unordered)+n.Ordered(), "state", picks[0].where()), *picks[0].values...)
			return err
		})
	}
	if err != nil {
		return c.Comparison, fmt.Errorf("choose rows: %w", err)
	}
	defer closeList(ctx, conn)
	read := func(row pgx.CollectableRow) (*relayedRow, error) {
		r := &relayedRow{Discrepancy: Discrepancy{Destination: c.Destination}}
		return r, row.Scan(&r.ID, &r.Topic, &r.key, &r.after, &r.RelayedAt)
	}
	err = fetch(ctx, conn, "outbox_relay_relayed", VerifyRows, read, func(rows []*relayedRow) error {
		return c.compare(ctx, rows)
	})
	return c.Comparison, err
}

// A relayedRow is a row with what the broker holds of it. Among rows with the same id and topic, the first counts the
// messages of all. The topic is empty if the template lacks a value for it.
type relayedRow struct {
	Discrepancy
	key   *string   // nil if the row has no key or keeps no order
	after time.Time // when it was inserted, or relayed: nothing was sent before
	rows  int       // with the same id and topic, for the first of them
}

// comparison is a comparison in progress.
type comparison struct {
	Comparison
	broker Broker
	report func(Discrepancy) error
}

// message identifies a message by its topic and the row's id, or the messages of a key in a partition or stream.
type message struct{ topic, id string }

// compare compares some rows with the part of the broker's messages that may belong to them.
func (c *comparison) compare(ctx context.Context, rows []*relayedRow) error {
	held, err := c.read(ctx, rows)
	if err != nil {
		return fmt.Errorf("read destination %s: %w", c.Destination, err)
	}
	last := map[message]*relayedRow{} // by place and key: the earlier row whose message came last
	for _, r := range rows {
		c.Rows++
		if r.Topic == "" || r.Messages < r.rows {
			problem, why := absence(r, held[r.Topic])
			err = c.note(r, problem, why)
		} else if r.Messages > r.rows {
			err = c.note(r, ProblemDuplicated, "")
		}
		if r.key != nil && r.Messages > 0 && err == nil {
			lane := message{r.Place, *r.key}
			if older := last[lane]; older == nil || *older.Position < *r.Position {
				last[lane] = r
			} else {
				r.Before = older.ID
				err = c.note(r, ProblemDisordered, "")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read counts the messages of the rows that the broker holds, and returns what it holds of each topic.
func (c *comparison) read(ctx context.Context, rows []*relayedRow) (map[string]publisher.Held, error) {
	first := map[message]*relayedRow{} // also without the topic, for messages of which the broker does not say it
	var topics []string
	from, until := rows[0].after, rows[0].RelayedAt
	for _, r := range rows {
		if r.Topic == "" {
			continue
		}
		topics = append(topics, r.Topic)
		m := message{r.Topic, r.ID}
		if first[m] == nil {
			first[m], first[message{"", r.ID}] = r, r
		}
		first[m].rows++
		if r.after.Before(from) {
			from = r.after
		}
		if r.RelayedAt.After(until) {
			until = r.RelayedAt
		}
	}
	if topics == nil {
		return nil, nil
	}
	from, until = from.Add(-VerifyMargin), until.Add(VerifyMargin)
	if c.broker.Anytime {
		from, until = time.Time{}, time.Time{}
	}
	slices.Sort(topics)
	return c.broker.Read(ctx, slices.Compact(topics), from, until, func(s *publisher.Stored) {
		r := first[message{s.Topic, c.broker.ID(s)}]
		if r == nil {
			return // of another row
		}
		if r.Messages++; r.Messages == 1 {
			r.Place, r.Position = s.Place, new(s.Position)
		}
	})
}

// absence says why a message is missing.
func absence(r *relayedRow, held publisher.Held) (problem, why string) {
	switch {
	case r.Topic == "":
		return ProblemMissing, "the template of topics has nothing to make its topic of"
	case held.Unknown != "":
		return ProblemUnknown, held.Unknown
	case held.Absent:
		return ProblemMissing, "there is no such topic, or no stream for it"
	case held.Lossy != "":
		return ProblemGone, held.Lossy
	case held.Since.After(r.RelayedAt):
		return ProblemGone, "what is so old was removed"
	}
	return ProblemMissing, ""
}

// note counts and reports a problem of a row.
func (c *comparison) note(r *relayedRow, problem, why string) error {
	d := r.Discrepancy
	d.Problem, d.Why, d.RelayedAt = problem, why, d.RelayedAt.UTC()
	*map[string]*int64{
		ProblemMissing: &c.Missing, ProblemGone: &c.Gone, ProblemUnknown: &c.Unknown, ProblemDuplicated: &c.Duplicated,
		ProblemDisordered: &c.Disordered,
	}[problem]++
	return c.report(d)
}
