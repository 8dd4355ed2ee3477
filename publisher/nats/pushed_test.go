package nats_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	ends := claims["exp"] // of the JWT as a whole; in seconds since 1970, 0 or nil for never
	delete(claims, "exp")
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]string{"typ": "JWT", "alg": "ed25519-nkey"}) + "." + part(map[string]any{
		"jti": rand.Text(), "iat": time.Now().Unix(), "iss": h.public, "sub": about.public, "nats": claims, "exp": ends,
	})
	signature, err := h.Sign([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// user returns the credentials file of a new user of an account. ends is when it expires, in seconds since 1970; 0
// means never.
func (h holder) user(t *testing.T, ends int64) []byte {
	t.Helper()
	user := newHolder(t, nkeys.CreateUser)
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
		h.signs(t, user, map[string]any{"type": "user", "subs": -1, "data": -1, "payload": -1, "exp": ends}), seed)
}

// operated starts a server that trusts an operator. It returns the server, an account with the given limits that may
// use JetStream, and a function that pushes another JWT of the account, with other limits, to the server.
func operated(t *testing.T, limits map[string]any) (server *process, account holder, push func(limits map[string]any)) {
	t.Helper()
	operator := newHolder(t, nkeys.CreateOperator)
	account, system := newHolder(t, nkeys.CreateAccount), newHolder(t, nkeys.CreateAccount)
	ofAccount := func(limits map[string]any) string {
		all := map[string]any{
			"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
			"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
		}
		maps.Copy(all, limits)
		return operator.signs(t, account, map[string]any{"type": "account", "limits": all})
	}
	server = startServer(t, t.TempDir(),
		fmt.Sprintf("operator: %q\nresolver: MEMORY\nresolver_preload: { %s: %q, %s: %q }",
			operator.signs(t, operator, map[string]any{"type": "operator", "system_account": system.public}),
			account.public, ofAccount(limits), system.public, operator.signs(t, system, map[string]any{
				"type": "account", "limits": map[string]any{"subs": -1, "data": -1, "payload": -1, "conn": -1, "leaf": -1},
			})))
	return server, account, func(limits map[string]any) {
		nc, err := client.Connect("nats://"+server.address, client.UserCredentialBytes(system.user(t, 0)))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		subject := "$SYS.REQ.ACCOUNT." + account.public + ".CLAIMS.UPDATE"
		if answer, err := nc.Request(subject, []byte(ofAccount(limits)), patience); err != nil {
			t.Fatal(err)
		} else {
			t.Logf("the server says %s", answer.Data)
		}
	}
}

// An account's limit that its operator raises, by pushing another JWT of the account to the server, is learned before a
// message fails for it.
func TestPushedLimitIsLearned(t *testing.T) {
	t.Parallel()
	server, account, push := operated(t, map[string]any{"payload": 64 << 10})
	login := account.user(t, 0)
	createStream(t, "nats://"+server.address, client.UserCredentialBytes(login))
	p := open(t, nats.Config{
		Servers: []string{server.address}, Auth: func() (nats.Auth, error) { return nats.Auth{Credentials: login}, nil },
	})
	accepts(t, p, "a.b")
	expect(t, p.Publish(timely(t), large("a.b")), publisher.Permanent)
	push(map[string]any{"payload": 1 << 20})
	takes(t, p, "a.b")
}

// An account whose number of streams is used up takes rows for the streams that it has. Rows without a stream wait, as
// those of any subject without one, until the limit is raised and the stream made.
func TestMostStreams(t *testing.T) {
	t.Parallel()
	server, account, push := operated(t, map[string]any{"streams": 1})
	login, url := account.user(t, 0), "nats://"+server.address
	createStream(t, url, client.UserCredentialBytes(login))
	p := open(t, nats.Config{
		Servers: []string{server.address}, Auth: func() (nats.Auth, error) { return nats.Auth{Credentials: login}, nil },
	})
	nc, err := client.Connect(url, client.UserCredentialBytes(login))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	second := jetstream.StreamConfig{Name: "B", Subjects: []string{"b.>"}}
	refused := (*jetstream.APIError)(nil)
	if _, err := js.CreateStream(timely(t), second); !errors.As(err, &refused) || refused.ErrorCode != 10027 {
		t.Fatalf("a second stream: %v", err)
	}
	rows := hotRows("b.c", 10, 2)
	for range 3 {
		accepts(t, p, "a.b")
		for _, err := range p.Publish(timely(t), rows) {
			if class := publisher.ClassOf(err); class != publisher.Topology && class != publisher.NotAttempted {
				t.Fatalf("without a stream: %v", err)
			}
		}
	}
	push(map[string]any{"streams": 2})
	s, err := js.CreateStream(timely(t), second)
	if err != nil {
		t.Fatal(err)
	}
	for ctx := timely(t); ; {
		if errs := p.Publish(ctx, rows); !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			break
		} else if ctx.Err() != nil {
			t.Fatal(errs)
		}
	}
	inOrder(t, s, rows)
}

// Credentials that expire while rows flow: if others are there in time, nothing is noticed but another connection. If
// they come late, the rows wait, and the reason is named. Each row is stored once, in order.
func TestCredentialsExpireUnderLoad(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"renewed in time": false, "renewed late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, account, _ := operated(t, nil)
			url, forever := "nats://"+server.address, client.UserCredentialBytes(account.user(t, 0))
			createStream(t, url, forever)
			end := time.Now().Add(6 * time.Second).Truncate(time.Second)
			var login atomic.Pointer[[]byte]
			renew := func(ends int64) { file := account.user(t, ends); login.Store(&file) }
			renew(end.Unix())
			p := open(t, nats.Config{
				Servers: []string{server.address},
				Auth:    func() (nats.Auth, error) { return nats.Auth{Credentials: *login.Load()}, nil },
			})
			persist(t, p)
			if !late {
				time.AfterFunc(time.Until(end)-4*time.Second, func() { renew(0) })
			}
			var all, left []publisher.Message
			told := false
			ctx, pace := timely(t), time.NewTicker(10*time.Millisecond)
			defer pace.Stop()
			for ; time.Now().Before(end.Add(time.Second)) || len(left) > 0; <-pace.C {
				if ctx.Err() != nil {
					t.Fatalf("%d messages are not accepted", len(left))
				}
				if len(left) == 0 {
					left = hotRows("a.b", 20, 5)
					all = append(all, left...)
				}
				var again []publisher.Message
				for i, err := range p.Publish(ctx, left) {
					accepted := publisher.ClassOf(err) == publisher.Accepted
					if !late && (!accepted || publisher.Republished(err)) {
						t.Fatalf("message %d: %v", i, err)
					}
					if accepted {
						continue
					}
					again = append(again, left[i])
					if strings.Contains(err.Error(), "credentials have expired") && !told {
						told = true
						renew(0)
					}
				}
				left = again
			}
			if told != late {
				t.Errorf("the expired credentials are named: %v", told)
			}
			nc, err := client.Connect(url, forever)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			s, err := js.Stream(ctx, "A")
			if err != nil {
				t.Fatal(err)
			}
			inOrder(t, s, all)
		})
	}
}
