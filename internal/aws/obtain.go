package aws

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer bounds how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

// remedies are the errors of a request for temporary credentials, each with what to change.
type remedies struct {
	away, refused, foreign string // no answer, a refusal, and an answer of something else
}

// obtain sends a request for temporary credentials and decodes the answer. Its errors leave out the URL, which may hold
// a secret.
func obtain(client *http.Client, request *http.Request, decode func([]byte, any) error, says remedies) (
	found Credentials, has bool, err error,
) {
	response, err := client.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return found, false, fmt.Errorf("%s: %w", says.away, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return found, false, fmt.Errorf("%s: %w", says.away, err)
	}
	var answer struct { // of the agents in JSON, and of the security token service in XML
		KeyID   string    `json:"AccessKeyId" xml:"AssumeRoleWithWebIdentityResult>Credentials>AccessKeyId"`
		Secret  string    `json:"SecretAccessKey" xml:"AssumeRoleWithWebIdentityResult>Credentials>SecretAccessKey"`
		Token   string    `json:"Token" xml:"AssumeRoleWithWebIdentityResult>Credentials>SessionToken"`
		Expires time.Time `json:"Expiration" xml:"AssumeRoleWithWebIdentityResult>Credentials>Expiration"`
		Code    string    `json:"code" xml:"Error>Code"`
	}
	foreign := decode(body, &answer) != nil || answer.KeyID == "" || answer.Secret == ""
	switch {
	case response.StatusCode != http.StatusOK:
		return found, false, fmt.Errorf("%s: %d %.60q", says.refused, response.StatusCode, answer.Code)
	case foreign:
		return found, false, errors.New(says.foreign)
	}
	return Credentials{KeyID: answer.KeyID, Secret: answer.Secret, Token: answer.Token, Expires: answer.Expires}, true,
		nil
}
