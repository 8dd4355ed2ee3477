package aws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// environment is the environment of a process.
type environment map[string]string

func (e environment) chain() *Chain {
	return &Chain{Getenv: func(name string) string {
		return e[name]
	}, Client: http.DefaultClient, Local: http.DefaultClient, Logger: slog.New(slog.DiscardHandler)}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// temporary is an answer of the security token service.
func temporary(id string, expires time.Time) string {
	return fmt.Sprintf(`<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
		<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>hush-key</SecretAccessKey><SessionToken>hush-session</SessionToken>
		<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`, id, expires.UTC().Format(time.RFC3339))
}

// Credentials are found in each place, in the order of AWS's own libraries.
func TestPlaces(t *testing.T) {
	t.Parallel()
	sts := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost ||
			r.PostForm.Get("Action") != "AssumeRoleWithWebIdentity" ||
			r.PostForm.Get("Version") != "2011-06-15" || r.PostForm.Get("WebIdentityToken") != "hush-jwt" ||
			r.PostForm.Get("RoleSessionName") == "" {
			t.Errorf("the security token service is asked for %v", r.PostForm)
		}
		_, _ = w.Write([]byte(temporary(r.PostForm.Get("RoleArn"), time.Now().Add(time.Hour))))
	})
	agent := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/credentials" || r.Header.Get("Authorization") != "hush-pod" {
			t.Errorf("the agent is asked %s as %q", r.URL, r.Header.Get("Authorization"))
		}
		_, _ = fmt.Fprintf(w,
			`{"AccessKeyId":"agent","SecretAccessKey":"hush-key","Token":"hush-session","Expiration":%q,"AccountId":"1"}`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	})
	jwt, pod := file(t, "hush-jwt\n"), file(t, "hush-pod\n")
	key := environment{
		"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "hush-key",
		"AWS_SESSION_TOKEN": "hush-session",
	}
	web := environment{"AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": "role", "AWS_ENDPOINT_URL_STS": sts}
	container := environment{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI":     agent + "/v1/credentials",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": pod,
	}
	both := func(all ...environment) environment {
		joined := environment{}
		for _, e := range all {
			for name, value := range e {
				joined[name] = value
			}
		}
		return joined
	}
	for want, e := range map[string]environment{
		"env": both(container, web, key), "role": both(container, web), "agent": container,
	} {
		found, err := e.chain().Credentials(t.Context(), "eu-central-1")
		if err != nil || found.KeyID != want || found.Secret != "hush-key" || found.Token == "" {
			t.Errorf("%s: found %q: %v", want, found.KeyID, err)
		}
		if text := fmt.Sprintf("%v %+v %#v", found, found, found); strings.Contains(text, "hush") {
			t.Errorf("printed as %s", text)
		}
	}
}

// Errors say what to change, without a secret.
func TestMistakes(t *testing.T) {
	t.Parallel()
	refusing := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(
			`<ErrorResponse><Error><Code>AccessDenied</Code><Message>hush-jwt</Message></Error></ErrorResponse>`))
	})
	page := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>hush</html>`)) })
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + nobody.Addr().String()
	_ = nobody.Close()
	jwt := file(t, "hush-jwt")
	web := func(at string) environment {
		return environment{"AWS_WEB_IDENTITY_TOKEN_FILE": jwt, "AWS_ROLE_ARN": "role", "AWS_ENDPOINT_URL_STS": at}
	}
	agent := func(at string) environment {
		return environment{"AWS_CONTAINER_CREDENTIALS_FULL_URI": at, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "hush"}
	}
	for says, e := range map[string]environment{
		"give the pod a role":               {},
		"set AWS_ACCESS_KEY_ID and":         {"AWS_SECRET_ACCESS_KEY": "hush"},
		"mount the file":                    {"AWS_WEB_IDENTITY_TOKEN_FILE": jwt + "x", "AWS_ROLE_ARN": "role"},
		"the trust policy":                  web(refusing),
		"no AWS security token":             web(page),
		"AWS_ENDPOINT_URL_STS to its VPC":   web(away),
		"AWS_ENDPOINT_URL_STS is not a URL": web("http://a b"),
		"no agent of ECS or EKS":            agent("http://example.com/hush"),
		"associate a role":                  agent(refusing),
		"gives no AWS credentials":          agent(page),
		"check that it runs on the node":    agent(away),
		"invalid header field value": {
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": page,
			"AWS_CONTAINER_AUTHORIZATION_TOKEN":  "hush\nhush",
		},
		"AUTHORIZATION_TOKEN_FILE cannot": {
			"AWS_CONTAINER_CREDENTIALS_FULL_URI":     page,
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": jwt + "x",
		},
	} {
		_, err := e.chain().Credentials(t.Context(), "eu-central-1")
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// fakeAgent gives temporary credentials, in simulated time.
type fakeAgent struct {
	asked int
	life  time.Duration
	away  bool
}

func (a *fakeAgent) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked++
	if a.away {
		return nil, errors.New("it is away")
	}
	answer := httptest.NewRecorder()
	_, _ = fmt.Fprintf(answer, `{"AccessKeyId":"%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`, a.asked,
		time.Now().Add(a.life).UTC().Format(time.RFC3339))
	return answer.Result(), nil
}

// Temporary credentials are used for four fifths of their life and are then renewed; if renewal fails, they are used
// until they expire. Credentials with which a login was refused are dropped.
func TestRenewal(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{time.Minute, time.Hour, 12 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			agent := &fakeAgent{life: life}
			chain := environment{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}.chain()
			chain.Local = &http.Client{Transport: agent}
			key := func(want string) Credentials {
				t.Helper()
				found, err := chain.Credentials(context.Background(), "r")
				if err != nil || found.KeyID != want {
					t.Errorf("life %v: key %q, want %q: %v", life, found.KeyID, want, err)
				}
				return found
			}
			margin := life / 5
			after := func(d time.Duration) { <-time.After(d) }
			key("1")
			after(life - margin - time.Second)
			key("1")
			after(2 * time.Second)
			key("2")
			agent.away = true
			after(life - margin + time.Second)
			for range 10 {
				key("2")
			}
			if agent.asked != 3 {
				t.Errorf("the agent that is away was asked %d times in a moment", agent.asked-2)
			}
			after(margin)
			if _, err := chain.Credentials(context.Background(), "r"); err == nil {
				t.Error("expired credentials are used")
			}
			agent.away = false
			key("5")
			chain.Refused(key("5"))
			key("5")
			after(5 * time.Second)
			chain.Refused(Credentials{KeyID: "4"})
			chain.Refused(key("5"))
			key("6")
		})
	}
}
