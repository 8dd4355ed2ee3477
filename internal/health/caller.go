package health

import (
	"net"
	"net/http"
	"strings"
)

// fromHere reports whether a program on this host sent the request itself; in Kubernetes that is a container of the
// same pod. Requests over the network, requests that a proxy forwards, and requests made by a page in a browser do not
// count.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	// Istio's proxy forwards external requests with the source address 127.0.0.6.
	if err != nil || ip == nil || !ip.IsLoopback() || ip.Equal(net.IPv4(127, 0, 0, 6)) {
		return false
	}
	for name := range r.Header {
		switch {
		case name == "Origin", name == "Forwarded", name == "Via", name == "X-Real-Ip",
			name == "X-Envoy-External-Address", strings.HasPrefix(name, "X-Forwarded-"):
			return false
		}
	}
	return namesNoOther(r.Host)
}

// namesNoOther reports whether the header Host is an address or localhost. A page may give its own name the address
// 127.0.0.1 (DNS rebinding); the browser then takes the relay for the page's own server and sends no Origin with a GET.
func namesNoOther(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.Trim(header, "[]")
	}
	return host == "" || host == "localhost" || net.ParseIP(host) != nil
}
