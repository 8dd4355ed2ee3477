package relay

import (
	"sync"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A complaint is what the log was told of a destination's outage, by its probe or by those who publish to it, so that
// each cause of it is told once whoever meets it first. Texts do not tell causes apart: with several hosts they name now the one and now
// the other. But the same text is the same cause, whatever a ping and a publish make of it.
type complaint struct {
	mu     sync.Mutex
	causes map[trouble]bool
	last   string
}

// A trouble is what an error says without its text.
type trouble struct {
	class publisher.Class
	short string
}

func troubleOf(err error) trouble { return trouble{publisher.ClassOf(err), publisher.ShortOf(err)} }

// told notes the error, and reports whether the log has its cause already.
func (c *complaint) told(err error) bool {
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

// over forgets the outage: the destination can be used again.
func (c *complaint) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.causes)
	c.last = ""
}
