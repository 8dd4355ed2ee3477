package kafka

import "sync"

// A lifetime is the time from a publisher's New to its Close. Close waits for all goroutines that were started in it.
type lifetime struct {
	over chan struct{} // closed by end

	mu      sync.Mutex
	running sync.WaitGroup
}

// start runs f in a goroutine and reports true, or reports false after end. f must return soon after over is closed.
func (l *lifetime) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended() {
		return false
	}
	l.running.Go(f)
	return true
}

// end closes over, once, and waits for the goroutines that were started.
func (l *lifetime) end() {
	l.mu.Lock()
	if !l.ended() {
		close(l.over)
	}
	l.mu.Unlock()
	l.running.Wait()
}

func (l *lifetime) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}
