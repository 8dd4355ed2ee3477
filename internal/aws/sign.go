package aws

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// algorithm is the algorithm of Signature Version 4.
const algorithm = "AWS4-HMAC-SHA256"

// A Request is a request to be signed: GET of a host's root with parameters, without a body.
type Request struct {
	Host, Region, Service string
	Query                 url.Values
	At                    time.Time
	Life                  time.Duration // lifetime of the signature, in whole seconds
}

// Presign returns the parameters of the request together with those that sign it.
func (r Request) Presign(c Credentials) url.Values {
	at := r.At.UTC().Format("20060102T150405Z")
	scope := []string{at[:8], r.Region, r.Service, "aws4_request"}
	query := url.Values{
		"X-Amz-Algorithm": {algorithm}, "X-Amz-Credential": {c.KeyID + "/" + strings.Join(scope, "/")},
		"X-Amz-Date":    {at},
		"X-Amz-Expires": {strconv.FormatInt(int64(r.Life/time.Second), 10)}, "X-Amz-SignedHeaders": {"host"},
	}
	if c.Token != "" {
		query.Set("X-Amz-Security-Token", c.Token)
	}
	for name, values := range r.Query {
		query[name] = values
	}
	// Encode sorts by name before it encodes, which is the order of the signature for names in ASCII.
	parameters := strings.ReplaceAll(query.Encode(), "+", "%20")
	request := strings.Join([]string{"GET", "/", parameters, "host:" + r.Host, "", "host", hexHash("")}, "\n")
	key := []byte("AWS4" + c.Secret)
	for _, part := range scope {
		key = keyedHash(key, part)
	}
	signed := strings.Join([]string{algorithm, at, strings.Join(scope, "/"), hexHash(request)}, "\n")
	query.Set("X-Amz-Signature", hex.EncodeToString(keyedHash(key, signed)))
	return query
}

func hexHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func keyedHash(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
