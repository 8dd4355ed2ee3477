package report

import (
	"sync"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// An Outage records what has been logged of a destination's outage, by its probe or by those who publish to it, so that
// each cause is logged once, by the first part that notices it. Different texts do not mean different causes: with
// several hosts, the text names sometimes one and sometimes another. But the same text means the same cause, even if a
// ping and a publish classify it differently.
type Outage struct {
	mu     sync.Mutex
	causes map[string]bool
	last   string

	streams map[string]bool // streams whose unexpected duplicates have been logged
}

// mostStreams is the largest number of streams whose duplicates are logged.
const mostStreams = 1000

// causeOf returns the content of an error without its text.
func causeOf(err error) string {
	return publisher.ClassOf(err).String() + ": " + publisher.ShortOf(err)
}

// Same reports whether two errors have the same content, whatever their texts.
func Same(a, b error) bool { return causeOf(a) == causeOf(b) }

// Logged notes the error, and reports whether its cause has already been logged.
func (o *Outage) Logged(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	cause, text := causeOf(err), err.Error()
	known := o.causes[cause] || o.last == text
	if o.causes == nil {
		o.causes = map[string]bool{}
	}
	o.causes[cause], o.last = true, text
	return known
}

// Duplicates reports whether a stream's unexpected duplicates are to be logged, which happens once per stream.
func (o *Outage) Duplicates(stream string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.streams[stream] || len(o.streams) == mostStreams {
		return false
	}
	if o.streams == nil {
		o.streams = map[string]bool{}
	}
	o.streams[stream] = true
	return true
}

// Over forgets the outage: the destination can be used again.
func (o *Outage) Over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.causes)
	o.last = ""
}
