// Package renewed keeps what a login needs and what expires, such as a token: it is obtained once, renewed some time
// before it expires, and replaced when a broker refuses it.
package renewed

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// refusedPause is how long a new value is used even if it is refused: if a right is missing, a new value at each
	// login would not help, and its source must not be asked at each of them.
	refusedPause = 5 * time.Second
	// renewPause is how long a value that is still valid is used after a failed renewal, which is logged each time.
	renewPause = time.Minute
)

// A Value is kept for callers in any number of goroutines. The zero Value holds nothing.
type Value[T comparable] struct {
	mu    sync.Mutex
	value T
	got   time.Time
	renew time.Time // when the value is renewed
	ends  time.Time // when it expires
}

// From returns the value, or obtains another one with when it expires; meanwhile other callers wait. A value whose
// expiry is zero is not kept; any other is renewed when four fifths of its life have passed. An error of obtain is
// returned only if there is no valid value; otherwise it is logged. what names the value in the log.
func (v *Value[T]) From(what string, logger *slog.Logger, obtain func() (T, time.Time, error)) (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	valid := now.Before(v.ends)
	if valid && now.Before(v.renew) {
		return v.value, nil
	}
	value, ends, err := obtain()
	now = time.Now()
	if err != nil && valid {
		logger.Warn("credentials cannot be renewed; they are used until they expire", "which", what,
			"until", v.ends.UTC(), "error", err)
		v.renew = now.Add(renewPause)
		return v.value, nil
	}
	if err == nil {
		v.value, v.got, v.renew, v.ends = value, now, ends.Add(-ends.Sub(now)/5), ends
	}
	return value, err
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

// Remedies say what to change if a request fails.
type Remedies struct {
	Away, Refused, Foreign string // no answer, a refusal, and an answer of something else
}

// largestAnswer bounds how much of an answer is read, in bytes.
const largestAnswer = 1 << 20

// Fetch sends a request for something secret and decodes the answer; use reports the code of a refusal, and whether the
// answer holds what was requested. Errors leave out the URL, which may hold a secret, and the answer.
func Fetch(client *http.Client, request *http.Request, decode func([]byte, any) error, answer any,
	use func() (code string, holds bool), says Remedies,
) error {
	response, err := client.Do(request) //nolint:gosec // the address is a setting
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return fmt.Errorf("%s: %w", says.Away, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", says.Away, err)
	}
	err = decode(body, answer)
	switch code, holds := use(); {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s %.60q", says.Refused, response.Status, code)
	case err != nil || !holds:
		return errors.New(says.Foreign)
	}
	return nil
}
