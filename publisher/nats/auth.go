package nats

import (
	"bytes"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Auth holds the publisher's credentials: user and password, a token, the contents of a credentials file, or the seed
// of an nkey. The zero value means no login. The bytes belong to the caller and are not changed.
type Auth struct {
	User, Password string
	Token          string
	Credentials    []byte // contents of a .creds file: the user's JWT and the seed of its nkey
	Seed           []byte // nkey user seed, beginning with SU
}

// String keeps secrets out of logs and errors.
func (a Auth) String() string { return "[redacted]" }

// GoString keeps secrets out of %#v.
func (a Auth) GoString() string { return "nats.Auth{[redacted]}" }

// equal reports whether two logins are the same, and a connection with one of them may stay.
func (a Auth) equal(b Auth) bool {
	return a.User == b.User && a.Password == b.Password && a.Token == b.Token &&
		bytes.Equal(a.Credentials, b.Credentials) && bytes.Equal(a.Seed, b.Seed)
}

var (
	errCredentials = errors.New("the credentials do not hold a user JWT and an nkey seed: give the whole .creds file")
	errSeed        = errors.New("the nkey is not a user seed: it begins with SU")
)

// apply sets the options of a connection. Its errors hold no secret. The files are parsed here and not by nats.go, so
// that they are read once for each connection and their contents may come from elsewhere than a file.
func (a Auth) apply(options *nats.Options) error {
	options.User, options.Password, options.Token = a.User, a.Password, a.Token
	if len(a.Credentials) > 0 {
		jwt, err := nkeys.ParseDecoratedJWT(a.Credentials)
		if err != nil {
			return errCredentials
		}
		pair, err := nkeys.ParseDecoratedNKey(a.Credentials)
		if err != nil {
			return errCredentials
		}
		options.UserJWT = func() (string, error) { return jwt, nil }
		options.SignatureCB = pair.Sign
	}
	if len(a.Seed) > 0 {
		pair, err := nkeys.FromSeed(a.Seed)
		if err != nil {
			return errSeed
		}
		public, err := pair.PublicKey()
		if err != nil || !nkeys.IsValidPublicUserKey(public) {
			return errSeed
		}
		options.Nkey, options.SignatureCB = public, pair.Sign
	}
	return nil
}
