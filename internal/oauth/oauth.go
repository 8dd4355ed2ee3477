// Package oauth gets the access tokens (OAuth 2.0) that brokers take for a login: from a file that somebody else renews, or from a
// token endpoint.
package oauth

import "context"

// Given returns the tokens that a function reads, such as that in a file. What they are worth nobody but the broker knows.
func Given(read func() (string, error)) Tokens { return Tokens{read: read} }

// Tokens are read each time.
type Tokens struct{ read func() (string, error) }

// Token returns the present one.
func (t Tokens) Token(context.Context) (string, error) { return t.read() }

// Refused does nothing: the next token will be read as this one was.
func (Tokens) Refused(string) {}
