// Package renewed keeps what a login needs and what expires, such as a token: it is obtained once, renewed some time
// before it expires, and replaced when a broker refuses it.
package renewed

import (
	"sync"
	"time"
)

const (
	// refusedPause is how long a new value is used even if it is refused: if a right is missing, a new value at each login
	// would not help, and its source must not be asked at each of them.
	refusedPause = 5 * time.Second
	// renewPause is how long a value that is still valid is used after a failed renewal.
	renewPause = 10 * time.Second
)

// A Value is kept for callers in any number of goroutines. The zero Value holds nothing.
type Value[T comparable] struct {
	mu     sync.Mutex
	value  T
	got    time.Time
	renew  time.Time // when the value is renewed
	ends   time.Time // when it expires
	logged bool      // the failed renewal has been logged
}

// A Source is where a value comes from.
type Source[T comparable] struct {
	// Obtain returns a value and when it expires. A value whose expiry is zero is not kept.
	Obtain func() (T, time.Time, error)
	// Early is how long before its expiry a value is renewed, or a fifth of its lifetime if that is shorter. Zero means a
	// fifth of the lifetime.
	Early time.Duration
	// Warn logs that a renewal failed while the value is still valid. It is called once until a renewal succeeds.
	Warn func(until time.Time, err error)
}

// From returns the value, or obtains another one; meanwhile other callers wait. An error of the source is returned only
// if there is no valid value.
func (v *Value[T]) From(s Source[T]) (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	valid := now.Before(v.ends)
	if valid && now.Before(v.renew) {
		return v.value, nil
	}
	value, ends, err := s.Obtain()
	switch now := time.Now(); {
	case err != nil && valid:
		if !v.logged {
			s.Warn(v.ends.UTC(), err)
		}
		v.logged, v.renew = true, now.Add(renewPause)
		return v.value, nil
	case err != nil:
		return value, err
	default:
		early := ends.Sub(now) / 5
		if s.Early > 0 {
			early = min(early, s.Early)
		}
		v.value, v.got, v.renew, v.ends, v.logged = value, now, ends.Add(-early), ends, false
		return value, nil
	}
}

// Refused records that a broker no longer accepts a value: keys were changed, the value was revoked, or a right that it
// lacks has been granted since. The next login uses another one.
func (v *Value[T]) Refused(value T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if value == v.value && time.Since(v.got) >= refusedPause {
		v.ends = time.Time{}
	}
}
