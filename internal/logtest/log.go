// Package logtest keeps the log of a test.
package logtest

import (
	"bytes"
	"sync"
)

// A Log keeps what was logged. It may be written and read at the same time.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
