package dispatch

import (
	"sync"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Complaint records what has been logged of a destination's outage, by its probe or by those who publish to it, so
// that each cause is logged once, by the first part that notices it. Different texts do not mean different causes: with several
// hosts, the text names sometimes one and sometimes another. But the same text means the same cause, even if a ping and
// a publish classify it differently.
type Complaint struct {
	mu     sync.Mutex
	causes map[trouble]bool
	last   string

	streams map[string]bool // streams whose unexpected duplicates have been logged
}

// mostStreams is the largest number of streams whose duplicates are logged.
const mostStreams = 1000

// A trouble is the content of an error without its text.
type trouble struct {
	class publisher.Class
	short string
}

func troubleOf(err error) trouble { return trouble{publisher.ClassOf(err), publisher.ShortOf(err)} }

// Same reports whether two errors have the same content, whatever their texts.
func Same(a, b error) bool { return troubleOf(a) == troubleOf(b) }

// Logged notes the error, and reports whether its cause has already been logged.
func (c *Complaint) Logged(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cause, text := troubleOf(err), err.Error()
	known := c.causes[cause] || c.last == text
	if c.causes == nil {
		c.causes = map[trouble]bool{}
	}
	c.causes[cause], c.last = true, text
	return known
}

// duplicates reports whether a stream's unexpected duplicates are to be logged, which happens once per stream.
func (c *Complaint) duplicates(stream string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[stream] || len(c.streams) == mostStreams {
		return false
	}
	if c.streams == nil {
		c.streams = map[string]bool{}
	}
	c.streams[stream] = true
	return true
}

// Over forgets the outage: the destination can be used again.
func (c *Complaint) Over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.causes)
	c.last = ""
}
