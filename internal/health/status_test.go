package health

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The page is one small file that fetches nothing from other hosts and treats its data as text.
func TestPage(t *testing.T) {
	t.Parallel()
	text := string(page)
	if len(text) > 100_000 {
		t.Errorf("the page has %d bytes", len(text))
	}
	references := regexp.MustCompile(
		`(?i)(?:src|href|action)\s*=\s*"([^"]*)"|url\(([^)]*)\)|@import|import\(|//[a-z0-9.-]+\.[a-z]{2,}`)
	for _, reference := range references.FindAllString(text, -1) {
		switch reference {
		case `href="status"`, `href="data:,"`, "//www.w3.org": // the last is the SVG namespace
		default:
			t.Errorf("the page refers to %s", reference)
		}
	}
	for _, sink := range []string{
		"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc",
		" onclick=", " style=", "localStorage",
	} {
		if strings.Contains(text, sink) {
			t.Errorf("the page has %s", sink)
		}
	}
	for _, part := range []string{
		`<html lang="en">`, "<title>", "<main", "<h1>", `role="status"`, "prefers-color-scheme: dark",
		`make("caption"`, `scope: "col"`, `scope: "row"`, "aria-label", ":focus-visible", "<noscript>",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
}

// The page's policy lets the browser run only the page's own script, not one in a topic's name.
func TestPagePolicy(t *testing.T) {
	t.Parallel()
	s := &Server{Status: func(context.Context, bool) any { return nil }}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	answer := httptest.NewRecorder()
	s.handler(&guard{}).ServeHTTP(answer, request)
	policy := answer.Header().Get("Content-Security-Policy")
	report := httptest.NewRecorder()
	s.handler(&guard{}).ServeHTTP(report, httptest.NewRequest(http.MethodGet, "/status", nil))
	for _, of := range []*httptest.ResponseRecorder{answer, report} {
		if of.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Error("pages of other origins may embed the answer")
		}
	}
	if answer.Code != 200 || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html") ||
		answer.Body.String() != string(page) {
		t.Errorf("%d %v", answer.Code, answer.Header())
	}
	if strings.Contains(policy, "unsafe") || strings.Count(policy, "'sha256-") != 2 ||
		!strings.HasPrefix(policy, "default-src 'none'; ") ||
		!strings.Contains(policy, "frame-ancestors 'none'") {
		t.Error(policy)
	}
	found := regexp.MustCompile(`(?s)<(style|script)>(.*?)</(?:style|script)>`).FindAllSubmatch(page, -1)
	if len(found) != 2 {
		t.Errorf("the page has %d blocks of style and script", len(found))
	}
	for _, block := range found {
		sum := sha256.Sum256(block[2])
		allowed := string(block[1]) + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
		if !strings.Contains(policy, allowed) {
			t.Errorf("pagePolicy lacks %s", allowed)
		}
	}
}

// Remote callers get the report without details; hostile text is transmitted as text.
func TestStatus(t *testing.T) {
	t.Parallel()
	const hostile = `</script><script>alert(1)</script>"'&`
	s := &Server{Status: func(_ context.Context, details bool) any {
		return map[string]any{"topic": hostile, "details": details}
	}}
	for remote, details := range map[string]bool{loopback: true, "10.0.0.7:1": false, "127.0.0.6:1": false} {
		status, body := ask(s, "GET", "/status", remote)
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || got["topic"] != hostile ||
			got["details"] != details ||
			strings.Contains(body, "<script>") {
			t.Errorf("from %s: %d %s", remote, status, body)
		}
	}
	for _, path := range []string{"/status", "/"} {
		if status, _ := ask(s, "POST", path, loopback); status != 405 {
			t.Errorf("POST %s: %d", path, status)
		}
		if status, _ := ask(&Server{Live: func() error { return nil }}, "GET", path, loopback); status != 404 {
			t.Errorf("%s, turned off: %d", path, status)
		}
	}
	if status, _ := ask(s, "GET", "/nothing", loopback); status != 404 {
		t.Errorf("an unknown path: %d", status)
	}
}
