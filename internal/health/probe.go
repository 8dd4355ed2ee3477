package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Here is the relay that runs on this host, as its own command-line program reaches it.
type Here struct {
	Addr   string // address that the relay listens on; for a wildcard address the loopback interface is used
	Config string // the file of [Server.Config]
}

// Get returns the relay's answer to a GET of path, at most 16 MiB, with an error unless the status is 200. It waits
// until ctx ends.
func (h Here) Get(ctx context.Context, path string) (body []byte, err error) {
	host, port, err := net.SplitHostPort(h.Addr)
	if err != nil {
		return nil, err
	}
	hosts, schemes := []string{host}, []string{"https", "http"}
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && ip.IsUnspecified() {
		hosts = []string{"127.0.0.1", "::1"} // the host may have only one of them, and the relay listen on one
	}
	if h.Config == "" { // otherwise it may say either, or be unusable: the relay then serves with the previous version
		schemes = schemes[1:]
	}
	var failed []error
	for _, scheme := range schemes {
		for _, host := range hosts {
			if body, err = h.ask(ctx, scheme+"://"+net.JoinHostPort(host, port)+path); err == nil {
				return body, nil
			}
			failed = append(failed, err)
		}
	}
	return nil, errors.Join(failed...)
}

const mostAnswer = 16 << 20

func (h Here) ask(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	// The certificate bears the name by which others know the relay, not that of the loopback interface. The answer
	// cannot come from elsewhere: the relay listens on the address, so it is one of this host.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // see above
	}}
	if c, err := readWebConfig(h.Config); err == nil && h.Config != "" {
		request.Header.Set("Authorization", bearer+c.local)
		if c.server != nil { // for a server that requires client certificates, the only one available
			transport.TLSClientConfig.Certificates = c.server.Certificates
		}
	}
	// A transport of its own, so that HTTP_PROXY does not redirect the request.
	client := &http.Client{Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d: %s", url, response.StatusCode,
			strings.TrimSpace(string(body[:min(len(body), 1<<10)])))
	}
	return body, err
}
