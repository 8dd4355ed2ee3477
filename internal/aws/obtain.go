package aws

import (
	"net/http"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/renewed"
)

// obtain sends a request for temporary credentials and decodes the answer.
func obtain(client *http.Client, request *http.Request, decode func([]byte, any) error, says renewed.Remedies) (
	found Credentials, has bool, err error,
) {
	var answer struct { // of the agents in JSON, and of the security token service in XML
		KeyID   string    `json:"AccessKeyId" xml:"AssumeRoleWithWebIdentityResult>Credentials>AccessKeyId"`
		Secret  string    `json:"SecretAccessKey" xml:"AssumeRoleWithWebIdentityResult>Credentials>SecretAccessKey"`
		Token   string    `json:"Token" xml:"AssumeRoleWithWebIdentityResult>Credentials>SessionToken"`
		Expires time.Time `json:"Expiration" xml:"AssumeRoleWithWebIdentityResult>Credentials>Expiration"`
		Code    string    `json:"code" xml:"Error>Code"`
	}
	use := func() (string, bool) { return answer.Code, answer.KeyID != "" && answer.Secret != "" }
	if err := renewed.Fetch(client, request, decode, &answer, use, says); err != nil {
		return found, false, err
	}
	return Credentials{KeyID: answer.KeyID, Secret: answer.Secret, Token: answer.Token, Expires: answer.Expires}, true,
		nil
}
