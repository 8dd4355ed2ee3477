package kafka

import "sync"

// closers are the things that Close must end: connections and dials under way.
type closers struct {
	mu      sync.Mutex
	next    int
	end     map[int]func()
	done    chan struct{} // closed by close
	running sync.WaitGroup
}

// start runs f in the background and reports true, or reports false after close. f must end when what it has
// added is ended.
func (c *closers) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed() {
		return false
	}
	c.running.Go(f)
	return true
}

// add remembers how to end something and returns its number. After close it is ended at once.
func (c *closers) add(end func()) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		end()
		return 0
	default:
	}
	c.next++
	c.end[c.next] = end
	return c.next
}

func (c *closers) remove(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.end, number)
}

// close ends everything, once, and waits for what was started.
func (c *closers) close() {
	defer c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		return
	default:
	}
	close(c.done)
	for _, end := range c.end {
		end()
	}
	clear(c.end)
}

func (c *closers) closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
