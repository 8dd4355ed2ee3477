package kafka

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Settings of a topic that decide what happens to old records.
const (
	timestampType       = "message.timestamp.type"
	timestampBefore     = "message.timestamp.before.max.ms"     // since 3.6
	timestampDifference = "message.timestamp.difference.max.ms" // the same, until 3.9; it may be lower than the new one
	retention           = "retention.ms"
)

// times compares the age of the oldest waiting row with what the topic does with records of that age.
func (e *examination) times(topic string, value map[string]string) {
	if value[timestampType] == "LogAppendTime" {
		e.Well(checkTime, topic, "gives records the time of their append")
		return
	}
	takes := min(limitOf(value[timestampBefore]), limitOf(value[timestampDifference]))
	keeps := limitOf(value[retention])
	if !strings.Contains(value["cleanup.policy"], "delete") {
		keeps = math.MaxInt64
	}
	age := time.Duration(0)
	if oldest := e.oldest[topic]; !oldest.IsZero() {
		age = time.Since(oldest).Round(time.Second)
	}
	e.Add(checkTime, topic,
		finding.WarnIf(age > takes, fmt.Sprintf("takes no record that is older than %v, and the oldest row that waits "+
			"is %v old: such rows get the time of now", takes, age), "raise message.timestamp.before.max.ms, if "+
			"consumers want the time of insert"),
		finding.WarnIf(age > keeps, fmt.Sprintf("deletes records that are older than %v, and the oldest row that "+
			"waits is %v old: such rows are acknowledged and soon gone", keeps, age),
			"raise retention.ms before they are published, until consumers have read them"),
		finding.OKIf(takes == math.MaxInt64 && keeps == math.MaxInt64, "takes and keeps records of any age"),
		finding.OKIf(keeps == math.MaxInt64, fmt.Sprintf("takes records up to an age of %v", takes)),
		finding.OKIf(true, fmt.Sprintf("takes and keeps records up to an age of %v", min(takes, keeps))))
}

// limitOf reads a setting in milliseconds. Without a limit it is the longest duration.
func limitOf(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}
