package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Probe asks the relay that listens on addr, on this host, whether it is live. A wildcard address is
// asked on the loopback interface. It waits until ctx ends.
func Probe(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	hosts := []string{host}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		hosts = []string{"127.0.0.1", "::1"} // a host may have just one of the families
	}
	var failed []error
	for _, host := range hosts {
		err := probe(ctx, "http://"+net.JoinHostPort(host, port)+"/livez")
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return fmt.Errorf("health check: %w", errors.Join(failed...))
}

func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// A transport of its own, so that HTTP_PROXY does not send the question elsewhere.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("%s answers %d: %s", url, response.StatusCode, strings.TrimSpace(string(reason)))
	}
	return nil
}
