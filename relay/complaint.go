package relay

import "sync"

// A complaint is what was last said in the log about a destination, by its probe or by those who publish
// to it, so that one outage is told once whoever meets it first.
type complaint struct {
	mu   sync.Mutex
	text string
}

// told notes the error, and reports whether the log has it already.
func (c *complaint) told(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.text
	c.text = err.Error()
	return before == c.text
}

// over forgets the error: the destination can be used again.
func (c *complaint) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = ""
}
