package connect

import "sync"

// Users counts what needs a connection: calls that use it, and messages whose answers it still owes. After another
// connection has taken its place, new calls use that one, and the old one ends when nothing needs it any more.
type Users struct {
	mu     sync.Mutex
	count  int
	unused chan struct{} // closed when nothing needs the retired connection; nil until it is retired
}

// Use counts a call that uses the connection. It returns false if the connection was retired.
func (u *Users) Use() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unused != nil {
		return false
	}
	u.count++
	return true
}

// Add changes the number of things that need the connection, retired or not.
func (u *Users) Add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count += n
	if u.unused != nil && u.count == 0 {
		u.close()
	}
}

// Retire returns a channel that is closed when nothing needs the connection any more.
func (u *Users) Retire() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unused == nil {
		u.unused = make(chan struct{})
	}
	if u.count == 0 {
		u.close()
	}
	return u.unused
}

// close closes unused, once. u.mu is held.
func (u *Users) close() {
	select {
	case <-u.unused:
	default:
		close(u.unused)
	}
}
