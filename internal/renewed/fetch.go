package renewed

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

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
