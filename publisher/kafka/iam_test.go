package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// The messages are those that kafka-go's own module for AWS_MSK_IAM (sasl/aws_msk_iam_v2, with AWS's library) produces
// from the same credentials, host and time.
func TestIAMMessage(t *testing.T) {
	t.Parallel()
	for _, want := range []string{
		`{"action":"kafka-cluster:Connect","host":"b-1.shop.abc123.c2.kafka.eu-central-1.amazonaws.com","user-agent":"test","version":"2020_10_22","x-amz-algorithm":"AWS4-HMAC-SHA256","x-amz-credential":"AKIDEXAMPLE/20261123/eu-central-1/kafka-cluster/aws4_request","x-amz-date":"20261123T010203Z","x-amz-expires":"900","x-amz-signature":"ad6cd78979dc396d2d3883c1f96219b3ba1295c9c7934d81d00b295ef0a788c7","x-amz-signedheaders":"host"}`,
		`{"action":"kafka-cluster:Connect","host":"b-1.shop.abc123.c2.kafka.eu-central-1.amazonaws.com","user-agent":"test","version":"2020_10_22","x-amz-algorithm":"AWS4-HMAC-SHA256","x-amz-credential":"AKIDEXAMPLE/20261123/eu-central-1/kafka-cluster/aws4_request","x-amz-date":"20261123T010203Z","x-amz-expires":"900","x-amz-security-token":"IQoJb3JpZ2luX2VjE+/a=token","x-amz-signature":"f8d53d584b9e53127f0e167fcdf5790d8beefa8f655af3488b73e36439a2de48","x-amz-signedheaders":"host"}`,
	} {
		var theirs map[string]string
		if err := json.Unmarshal([]byte(want), &theirs); err != nil {
			t.Fatal(err)
		}
		key := AWSKey{
			ID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
			Token: theirs["x-amz-security-token"],
		}
		ours, err := (&IAM{UserAgent: "test", Region: "eu-central-1"}).message(t.Context(), theirs["host"], key,
			time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC))
		if err != nil || !reflect.DeepEqual(ours, theirs) {
			t.Errorf("got %v, %v\nwant %v", ours, err, theirs)
		}
	}
}

// signedBy reports whether a login was signed by the key "relay" with the given secret, for this broker and moment. A
// broker makes the same check.
func signedBy(message []byte, secret string) bool {
	var m map[string]string
	if json.Unmarshal(message, &m) != nil || m["version"] != "2020_10_22" || m["action"] != "kafka-cluster:Connect" ||
		m["user-agent"] == "" {
		return false
	}
	at, err := time.Parse("20060102T150405Z", m["x-amz-date"])
	scope := strings.Split(m["x-amz-credential"], "/")
	if err != nil || len(scope) != 5 || scope[0] != "relay" || time.Since(at).Abs() > 5*time.Minute {
		return false
	}
	key := AWSKey{ID: "relay", Secret: secret, Token: m["x-amz-security-token"]}
	right, err := (&IAM{Region: scope[2]}).message(context.Background(), "127.0.0.1", key, at)
	return err == nil && m["x-amz-signature"] == right["x-amz-signature"]
}

// A keyring returns the key "relay" with its current secret.
type keyring struct {
	secret  string
	err     error
	region  string // region that was requested
	refused int
}

func (k *keyring) key(_ context.Context, region string) (AWSKey, error) {
	k.region = region
	return AWSKey{ID: "relay", Secret: k.secret, Token: "hush-session", Refused: func() { k.refused++ }}, k.err
}

func TestIAM(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.password, f.lifetime = "hush-1", 100*time.Millisecond
	var log bytes.Buffer
	open := func(keys *keyring, region string) *Publisher {
		return f.open(func(c *Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			c.SASL = func() (sasl.Mechanism, error) { return &IAM{Keys: keys.key, Region: region, UserAgent: "test"}, nil }
		})
	}
	keys := &keyring{secret: "hush-1"}
	p := open(keys, "eu-west-1")
	expect(t, "the right key", publish(t, p, rows("t", 0, 1, "a")), ok)
	if keys.region != "eu-west-1" || keys.refused != 0 {
		t.Errorf("asked for region %q, refused %d times", keys.region, keys.refused)
	}
	// Sessions end, and the keys change with them. No message is without its answer.
	logins := func() (n int) { f.set(func() { n = f.logins }); return n }
	eventually(t, func() bool {
		expect(t, "in the session", publish(t, p, rows("t", 0, 1, "a")), ok)
		return logins() >= 3
	})
	for name, test := range map[string]struct {
		keys                *keyring
		region, short, says string
	}{
		"another key": {&keyring{secret: "hush-2"}, "eu-west-1", "login refused", "kafka-cluster:Connect"},
		"no key":      {&keyring{err: errors.New("there is none")}, "eu-west-1", "credentials unusable", "there is none"},
		"no region":   {keys, "", "credentials unusable", "AWS_REGION"},
	} {
		answer := answersOf(t, open(test.keys, test.region), rows("t", 0, 1, "b"))[0]
		if publisher.ClassOf(answer) != down || publisher.ShortOf(answer) != test.short ||
			!strings.Contains(answer.Error(), test.says) {
			t.Errorf("%s: %v (%s)", name, answer, publisher.ShortOf(answer))
		}
		if strings.Contains(answer.Error()+log.String(), "hush") {
			t.Errorf("%s: a secret is shown: %v\n%s", name, answer, log.String())
		}
		if test.short == "login refused" && test.keys.refused == 0 {
			t.Errorf("%s: the refusal is not reported", name)
		}
	}
}
