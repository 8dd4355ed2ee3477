package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
)

// explained is a read of the table by the relay, as PostgreSQL's auto_explain reports it.
type explained struct {
	millis  float64
	rows    float64
	buffers float64 // shared, hit and read
}

// explainer makes PostgreSQL explain each statement that passes a proxy, in notices that relays ignore.
type explainer struct {
	*proxy
	url string // URL to connect with, as superuser

	mu    sync.Mutex
	reads []explained
	err   error
}

func startExplainer(ctx context.Context, database string) (*explainer, error) {
	p, err := startProxy(ctx, database, 0)
	if err != nil {
		return nil, err
	}
	e := &explainer{proxy: p}
	p.fromServer = e.listen
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	query.Set("options",
		"-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_level=notice"+
			" -c auto_explain.log_format=json -c auto_explain.log_analyze=on -c auto_explain.log_timing=off -c "+
			"auto_explain.log_buffers=on")
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // the form that libpq requires
	e.url = u.String()
	return e, nil
}

// take returns the reads since the last call.
func (e *explainer) take() ([]explained, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reads := e.reads
	e.reads = nil
	if e.err == nil && len(reads) == 0 {
		return nil, errors.New("no read was explained: does the server have auto_explain, and is the role a superuser?")
	}
	return reads, e.err
}

// listen looks for notices in what the server sends.
func (e *explainer) listen(server io.Reader) {
	defer func() { _, _ = io.Copy(io.Discard, server) }()
	var head [5]byte
	for {
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		size := int64(binary.BigEndian.Uint32(head[1:])) - 4
		const notice = 'N'
		if head[0] != notice {
			if _, err := io.CopyN(io.Discard, server, size); err != nil {
				return
			}
			continue
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		for _, field := range bytes.Split(body, []byte{0}) {
			if text, found := bytes.CutPrefix(field, []byte("Mduration: ")); found {
				e.note(string(text))
			}
		}
	}
}

// note records a statement if it reads pages of pending rows.
func (e *explainer) note(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var read explained
	duration, document, _ := strings.Cut(text, "plan:")
	var shown struct {
		Text string `json:"Query Text"`
		Plan struct {
			Rows float64 `json:"Actual Rows"`
			Hit  float64 `json:"Shared Hit Blocks"`
			Read float64 `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(document), &shown); err != nil {
		e.err = fmt.Errorf("read an explanation: %w", err)
		return
	}
	if _, err := fmt.Sscanf(duration, "%f ms", &read.millis); err != nil {
		e.err = fmt.Errorf("read an explanation: %w", err)
		return
	}
	if _, statement, found := prepares(shown.Text); found {
		shown.Text = statement
	}
	if !strings.HasPrefix(shown.Text, "(select null::pg_snapshot") {
		return
	}
	const visible = 1 // the row that says what was visible comes with each page
	read.rows, read.buffers = shown.Plan.Rows-visible, shown.Plan.Hit+shown.Plan.Read
	e.reads = append(e.reads, read)
}
