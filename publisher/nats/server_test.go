package nats

import (
	"slices"
	"strings"
	"testing"
)

func TestParseServers(t *testing.T) {
	got, err := parseServers([]string{"nats://a:1234", "b", "[::1]", "d:42/"})
	want := []server{{address: "a:1234"}, {address: "b:4222"}, {address: "[::1]:4222"}, {address: "d:42"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("servers %v, %v, want %v", got, err, want)
	}
}

func TestParseServersRefuses(t *testing.T) {
	for _, urls := range [][]string{
		nil,
		{""},
		{"kafka://a:1"},
		{"nats://"},
		{"nats://:1"},
		{"nats://a:b"},
		{"nats://a/path"},
		{"ws://a"},
		{"tls://a:1"},
		{"nats://user:secret@a:1"},
		{"nats://a?x=y"},
		{"nats://user:secret@a:port"},
	} {
		_, err := parseServers(urls)
		if err == nil {
			t.Errorf("%q is taken", urls)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

func TestServersOfTheCluster(t *testing.T) {
	from := server{address: "nats.example:4222"}
	all := from.with([]server{from},
		[]string{"nats://10.0.0.1:4222", "nats://nats.example:4222", "tls://other.example:4222", "::"})
	addresses := []string{}
	for _, s := range all {
		addresses = append(addresses, s.address)
	}
	if want := []string{"nats.example:4222", "10.0.0.1:4222", "other.example:4222"}; !slices.Equal(addresses, want) {
		t.Fatalf("servers %q, want %q", addresses, want)
	}
	if got := all[1].host(); got != "nats.example" {
		t.Errorf("an IP is to prove that it is %q, want the name of the server that announced it", got)
	}
	if got := all[2].host(); got != "other.example" {
		t.Errorf("a host is to prove that it is %q, want its own name", got)
	}
	// An address that was learned from an IP of the cluster keeps the same name.
	again := all[1].with(all[:1], []string{"nats://10.0.0.2:4222"})
	if got := again[1].host(); got != "nats.example" {
		t.Errorf("an IP that an IP announced is to prove that it is %q", got)
	}
}
