package outbox

import (
	"context"
	"fmt"
	"time"
)

// sampleRows is how many pending rows are examined at each end of the backlog.
const sampleRows = 5000

// A Sample is a row that represents all rows with the same topic and additional texts.
type Sample struct {
	Row
	Newest time.Time // when the last of these rows was inserted; zero if the table does not hold it
}

// SampleTopics returns one row for each combination of topic and additional texts among the first and the last pending
// rows, at most 1000 rows. The rows hold nothing else. ok is false if no index makes that cheap; then there is no
// sample.
func (t *Table) SampleTopics(ctx context.Context) (rows []Sample, ok bool, err error) {
	if !t.mapping.pendingIndex {
		return nil, false, nil
	}
	found, err := t.query(ctx, limits{inOrder: t.mapping.inOrder}, t.description.text("sample_topics.sql"),
		number(sampleRows))
	if err != nil {
		return nil, false, fmt.Errorf("sample topics: %w", err)
	}
	for _, values := range found { // text, whose binary form is the same
		var row Sample
		row.Message.Topic = string(values[0])
		if values[0] == nil {
			row.Invalid = errNullTopic
		}
		if values[1] != nil {
			row.Newest = timeOf(values[1])
		}
		t.extras(&row.Row, values[2:], &arena{})
		rows = append(rows, row)
	}
	return rows, true, nil
}
