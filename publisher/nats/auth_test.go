package nats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

func TestAuth(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	public, _ := pair.PublicKey()
	creds := fmt.Appendf(nil,
		"-----BEGIN NATS USER JWT-----\nthe.jwt\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY "+
			"SEED-----\n%s\n------END USER NKEY "+
			"SEED------\n", seed)

	signs := func(t *testing.T, options nats.Options) {
		t.Helper()
		signature, err := options.SignatureCB([]byte("nonce"))
		if err != nil || pair.Verify([]byte("nonce"), signature) != nil {
			t.Errorf("the nonce is not signed: %v", err)
		}
	}
	apply := func(t *testing.T, auth Auth) nats.Options {
		t.Helper()
		var options nats.Options
		if err := auth.apply(&options); err != nil {
			t.Fatal(err)
		}
		return options
	}
	t.Run("user", func(t *testing.T) {
		if o := apply(t, Auth{User: "u", Password: "p"}); o.User != "u" || o.Password != "p" {
			t.Error("user or password are missing")
		}
	})
	t.Run("token", func(t *testing.T) {
		if o := apply(t, Auth{Token: "t"}); o.Token != "t" {
			t.Error("the token is missing")
		}
	})
	t.Run("credentials", func(t *testing.T) {
		o := apply(t, Auth{Credentials: creds})
		if jwt, err := o.UserJWT(); jwt != "the.jwt" || err != nil {
			t.Errorf("the JWT is missing: %v", err)
		}
		signs(t, o)
	})
	t.Run("nkey", func(t *testing.T) {
		o := apply(t, Auth{Seed: append(seed, '\n')})
		if o.Nkey != public {
			t.Errorf("the nkey is %q, want %q", o.Nkey, public)
		}
		signs(t, o)
	})
	account, _ := nkeys.CreateAccount()
	accountSeed, _ := account.Seed()
	for name, auth := range map[string]Auth{
		"credentials without seed": {Credentials: []byte(
			"-----BEGIN NATS USER JWT-----\nsecret\n------END NATS USER JWT------\n")},
		"credentials of garbage": {Credentials: []byte("secret")},
		"seed of garbage":        {Seed: []byte("secret")},
		"seed of an account":     {Seed: accountSeed},
	} {
		t.Run(name, func(t *testing.T) {
			var options nats.Options
			err := auth.apply(&options)
			if err == nil {
				t.Fatal("it is taken")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains the secret: %v", err)
			}
		})
	}
}

func TestAuthIsNotPrinted(t *testing.T) {
	auth := Auth{User: "u", Password: "secret", Token: "secret", Credentials: []byte("secret"), Seed: []byte("secret")}
	for _, text := range []string{fmt.Sprint(auth), fmt.Sprintf("%v %+v %#v %s", auth, &auth, auth, auth)} {
		if strings.Contains(text, "secret") {
			t.Errorf("printed as %s", text)
		}
	}
}
