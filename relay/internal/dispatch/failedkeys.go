package dispatch

import (
	"github.com/outbox-relay/outbox-relay/relay/internal/keys"
)

// failedHead is what is known of a key with a failed row.
type failedHead struct {
	low   int64 // least ordinal of its failed rows, and of the pending rows that were passed over
	waits bool  // pending rows were passed over
}

// failedKeys is a set of keys with failed rows: the first of them one by one, the others in a fixed amount of memory.
type failedKeys struct {
	heads map[string]failedHead
	bytes int // bytes of the keys in heads
	more  keys.Set
	least int64 // smallest ordinal of the keys in more
}

func (s *failedKeys) empty() bool { return len(s.heads) == 0 && s.more == nil }

func (s *failedKeys) add(text string, ordinal int64) {
	head, known := s.heads[text]
	switch {
	case known:
		s.heads[text] = failedHead{min(head.low, ordinal), head.waits}
	case len(s.heads) < mostWaits && s.bytes+len(text) <= mostFailedBytes:
		if s.heads == nil {
			s.heads = map[string]failedHead{}
		}
		s.heads[text] = failedHead{low: ordinal}
		s.bytes += len(text)
	default:
		if s.more == nil {
			s.least = ordinal
		}
		s.more.Add(key{text: text}.Hash())
		s.least = min(s.least, ordinal)
	}
}

// merge adds the keys of another set.
func (s *failedKeys) merge(other failedKeys) {
	for text, head := range other.heads {
		s.add(text, head.low)
	}
	s.mergeMore(other)
}

// mergeMore adds the keys of another set that are not known one by one.
func (s *failedKeys) mergeMore(other failedKeys) {
	if other.more == nil {
		return
	}
	if s.more == nil {
		s.least = other.least
	}
	s.more.Merge(other.more)
	s.least = min(s.least, other.least)
}

func (s *failedKeys) has(k key) bool {
	_, known := s.heads[k.text]
	return known || s.more.Has(k.Hash())
}

// mostFailedBytes limits the memory for keys with failed rows that are known one by one.
const mostFailedBytes = 16 << 20
