package aws

import (
	"net/url"
	"testing"
	"time"
)

// The vectors for signed parameters in AWS's own suite (awslabs/aws-c-auth, tests/aws-signing-test-suite/v4), for
// requests without a path.
func TestVectors(t *testing.T) {
	t.Parallel()
	const unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	key := Credentials{KeyID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	session := key
	session.Token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
	for name, v := range map[string]struct {
		by        Credentials
		query     url.Values
		signature string
	}{
		"get-vanilla":                    {key, nil, "e93c787ed7f371d5c6b165c1b38ede9550f4dce4144713e844b25b7192d3865d"},
		"get-vanilla-with-session-token": {session, nil, "7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c"},
		"get-vanilla-query-order-key-case": {
			key,
			url.Values{"Param2": {"value2"}, "Param1": {"value1"}},
			"86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5",
		},
		"get-vanilla-query-unreserved": {
			key,
			url.Values{unreserved: {unreserved}},
			"8e76a88a7433637b12778d5592799b29ad21ecd6cf6325051c21d86f0acda2bf",
		},
	} {
		signed := Request{
			Host: "example.amazonaws.com", Region: "us-east-1", Service: "service", Query: v.query,
			At: time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC), Life: time.Hour,
		}.Presign(v.by)
		if got := signed.Get("X-Amz-Signature"); got != v.signature {
			t.Errorf("%s: signed as %s, not %s", name, got, v.signature)
		}
	}
}
