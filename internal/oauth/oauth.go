// Package oauth gets the access tokens (OAuth 2.0) that brokers accept for a login: from a file that another process
// renews, or from a token endpoint.
package oauth

import "context"

// Given returns tokens that a function reads, for example from a file. Only the broker knows whether they are valid.
func Given(read func() (string, error)) Tokens { return Tokens{read: read} }

// Tokens are read at each use.
type Tokens struct{ read func() (string, error) }

// Token returns the present token.
func (t Tokens) Token(context.Context) (string, error) { return t.read() }

// Refused does nothing: the next token is read in the same way.
func (Tokens) Refused(string) {}
