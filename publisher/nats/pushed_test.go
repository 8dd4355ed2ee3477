package nats_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// A holder is an operator, an account or a user of a NATS server with JWTs.
type holder struct {
	nkeys.KeyPair
	public string
}

func newHolder(t *testing.T, create func() (nkeys.KeyPair, error)) holder {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return holder{pair, public}
}

// signs returns a JWT about somebody.
func (h holder) signs(t *testing.T, about holder, claims map[string]any) string {
	t.Helper()
	claims["version"] = 2
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]string{"typ": "JWT", "alg": "ed25519-nkey"}) + "." + part(map[string]any{
		"jti": rand.Text(), "iat": time.Now().Unix(), "iss": h.public, "sub": about.public, "nats": claims,
	})
	signature, err := h.Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// user returns the credentials file of a new user of an account.
func (h holder) user(t *testing.T) []byte {
	t.Helper()
	user := newHolder(t, nkeys.CreateUser)
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
		h.signs(t, user, map[string]any{"type": "user", "subs": -1, "data": -1, "payload": -1}), seed)
}

// An account's limit that its operator raises, by pushing another JWT of the account to the server, is learned before a
// message fails for it.
func TestPushedLimitIsLearned(t *testing.T) {
	t.Parallel()
	operator := newHolder(t, nkeys.CreateOperator)
	account, system := newHolder(t, nkeys.CreateAccount), newHolder(t, nkeys.CreateAccount)
	ofAccount := func(payload int) string {
		return operator.signs(t, account, map[string]any{"type": "account", "limits": map[string]any{
			"subs": -1, "data": -1, "payload": payload, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
			"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
		}})
	}
	server := startServer(t, t.TempDir(),
		fmt.Sprintf("operator: %q\nresolver: MEMORY\nresolver_preload: { %s: %q, %s: %q }",
			operator.signs(t, operator, map[string]any{"type": "operator", "system_account": system.public}),
			account.public, ofAccount(64<<10), system.public, operator.signs(t, system, map[string]any{
				"type": "account", "limits": map[string]any{"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1},
			})))
	login := account.user(t)
	url := "nats://" + server.address
	createStream(t, url, client.UserCredentialBytes(login))
	p := open(t, nats.Config{
		Servers: []string{server.address}, Auth: func() (nats.Auth, error) { return nats.Auth{Credentials: login}, nil },
	})
	accepts(t, p, "a.b")
	expect(t, p.Publish(timely(t), large("a.b")), publisher.Permanent)
	nc, err := client.Connect(url, client.UserCredentialBytes(system.user(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	answer, err := nc.Request("$SYS.REQ.ACCOUNT."+account.public+".CLAIMS.UPDATE", []byte(ofAccount(1<<20)), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the server says %s", answer.Data)
	takes(t, p, "a.b")
}
