package kafka

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// OAuth is the mechanism OAUTHBEARER (RFC 7628, KIP-255), which asks for a token at each login. kafka-go 0.4.51 has no
// such mechanism.
type OAuth struct {
	Tokens     publisher.Tokens
	Extensions []string // further values that the cluster requires in addition to the token, each as name=value
}

// Name implements [sasl.Mechanism].
func (*OAuth) Name() string { return "OAUTHBEARER" }

// Start returns the client's first message.
func (o *OAuth) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := o.Tokens.Token(ctx)
	if err != nil {
		return nil, nil, err
	}
	first := "n,,\x01auth=Bearer " + token + "\x01"
	for _, extension := range o.Extensions {
		first += extension + "\x01"
	}
	return &tokenSession{report: func() { o.Tokens.Refused(token) }}, []byte(first + "\x01"), nil
}

// A tokenSession follows one login in which the client's first message holds all that proves its identity. A broker
// that refuses a token says why in a challenge.
type tokenSession struct {
	report func() // tells the source of the credentials that they were refused
}

// Next ends the exchange. A broker that is content has nothing to ask, and AWS_MSK_IAM answers with its version.
func (s *tokenSession) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	var reason struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(challenge, &reason) == nil && reason.Status != "" {
		return false, nil, fmt.Errorf("the token is refused (%.60s)", reason.Status)
	}
	return true, nil, nil
}
