package cli

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/panics"
)

// liveReport makes the report of /status: the state of the table, and what this process knows. However many callers ask and
// however often, the database is queried at most once a second, and less often if the query takes long.
type liveReport struct {
	assembly *assembly
	config   *config.Config
	started  time.Time

	queries sync.WaitGroup // the query in progress, which outlives the request that began it

	mu      sync.Mutex
	table   operate.Report
	trouble error

	views []*outbox.Table // the table as each destination sees it; touched only by the query in progress
	old   time.Time       // when to open the table again, which may have changed

	due    time.Time     // earliest time of the next query
	asking chan struct{} // closed at the end of the query in progress; nil without one
	ended  bool          // no query begins any more
}

const (
	reportTimeout = time.Second // bounds one query
	reportOpen    = time.Minute // how long an open table is used
	reportEvery   = time.Second
	reportRest    = 20                    // multiple of a query's duration
	reportOld     = 10 * time.Second      // age after which the last answer is no longer given while the next query runs
	reportBrief   = 10 * time.Millisecond // a younger answer is given after so long; a large backlog takes a hundred to count
)

// withheld replaces what only authenticated callers may know.
const withheld = "withheld; ask on the same host or with credentials"

// report returns the report now. Without details it names neither hosts nor roles.
func (l *liveReport) report(ctx context.Context, details bool) operate.Report {
	r, err := l.look(ctx)
	if err != nil {
		why := errtext.Line(err)
		if !details {
			why = withheld
		}
		r.Problems = append(r.Problems, "the database could not be asked: "+why)
	}
	l.addProcess(&r, details)
	return r
}

// look returns the table's present state, or its state a moment ago, in a report whose slices of destinations and problems may
// be changed. If ctx ends first, look returns what is known.
func (l *liveReport) look(ctx context.Context) (operate.Report, error) {
	if asking, old := l.refresh(ctx); old {
		await(ctx, asking)
	} else if asking != nil {
		brief, cancel := context.WithTimeout(ctx, reportBrief)
		await(brief, asking)
		cancel()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.table
	if r.At.IsZero() {
		r = l.unknown()
	}
	r.Destinations = append([]operate.Destination(nil), r.Destinations...)
	r.Problems = append([]string{}, r.Problems...)
	return r, l.trouble
}

func await(ctx context.Context, event <-chan struct{}) {
	select {
	case <-event:
	case <-ctx.Done():
	}
}

// refresh queries the database if it is time for that and no query is in progress. It returns what is closed at the end of the
// query in progress, nil without one, and whether the last answer is too old to be given meanwhile.
func (l *liveReport) refresh(ctx context.Context) (asking <-chan struct{}, old bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.asking == nil && !l.ended && !now.Before(l.due) {
		l.asking = make(chan struct{})
		l.queries.Go(func() { l.query(context.WithoutCancel(ctx)) }) // the answer serves other callers too
	}
	return l.asking, l.asking != nil && now.Sub(l.table.At) > reportOld
}

// end waits for the query in progress and lets no other one begin.
func (l *liveReport) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.queries.Wait()
}

// query replaces the last answer, and ends the query in progress.
func (l *liveReport) query(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	started := time.Now()
	table, trouble := l.ask(ctx)
	ended := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table, l.trouble, l.due = table, trouble, ended.Add(max(reportEvery, reportRest*ended.Sub(started)))
	close(l.asking)
	l.asking = nil
}

func (l *liveReport) ask(ctx context.Context) (report operate.Report, err error) {
	defer func() {
		if value := recover(); value != nil {
			report, err = l.unknown(), panics.Caught(value)
		}
	}()
	r, o := l.unknown(), operate.Outbox{Pool: l.assembly.pool, Shards: l.config.Shards}
	l.open(ctx)
	defer func() {
		if err != nil { // the table may have changed
			l.views = nil
		}
	}()
	for i, table := range l.views {
		if name := l.config.Destinations[i].Name; table != nil {
			o.Views = append(o.Views, operate.View{Destination: name, Table: table})
		} else {
			r.Problems = append(r.Problems, "the rows of destination "+name+" were not counted: its check says why")
		}
	}
	if o.Views == nil {
		r.Problems = append(r.Problems, "the table cannot be looked at yet: the checks say why")
		return r, nil
	}
	found, err := o.Report(ctx, reportTimeout)
	found.Problems = append(r.Problems, found.Problems...)
	for i := range r.Destinations {
		if at := slices.IndexFunc(found.Destinations, func(d operate.Destination) bool { return d.Name == r.Destinations[i].Name }); at >= 0 {
			r.Destinations[i] = found.Destinations[at]
		}
	}
	found.Destinations = r.Destinations
	return found, err
}

// open opens the table unless it has been opened a moment ago. If that fails, nothing is open: the checks say why.
func (l *liveReport) open(ctx context.Context) {
	if l.views != nil && time.Now().Before(l.old) {
		return
	}
	l.views, l.old = nil, time.Now().Add(reportOpen)
	settings, _, err := rowsOnly(l.config, false)
	if err != nil {
		return
	}
	found, err := outbox.Open(ctx, l.assembly.pool, settings)
	if err != nil {
		return
	}
	for _, v := range settings.Views {
		view, _ := found.For(v) // nil if the table lacks the destination's columns
		l.views = append(l.views, view)
	}
}

// unknown is the report while nothing is known about the table.
func (l *liveReport) unknown() operate.Report {
	r := operate.Report{At: time.Now().UTC(), Table: l.config.Table.Name, Problems: []string{}}
	for _, d := range l.config.Destinations {
		r.Destinations = append(r.Destinations, operate.Destination{
			Name: d.Name, BestEffort: !d.Required,
			Backlog: operate.Backlog{AtLeast: []string{}, Topics: []operate.Topic{}},
		})
	}
	return r
}

// addProcess adds what this process knows.
func (l *liveReport) addProcess(r *operate.Report, details bool) {
	build := thisBuild()
	p := &operate.Process{Version: build.Version, Commit: build.Commit, StartedAt: l.started.UTC(), Ready: true, Shards: l.assembly.Owned()}
	r.Process = p
	for _, check := range checks(l.assembly) {
		line := operate.Check{Name: check.Name, OK: check.Err == nil, Text: check.Note}
		if check.Err != nil {
			p.Ready, line.Text = false, check.Err.Error()
		}
		if !details && line.Text != "" {
			line.Text = withheld
		}
		p.Checks = append(p.Checks, line)
	}
	for i, state := range l.assembly.States() {
		d := &r.Destinations[i]
		d.Held = new(int64)
		to := &operate.DestinationProcess{
			Up: state.Up, Paused: state.Paused, Reason: state.Reason, InFlight: int64(state.InFlight),
			BlockedKeys: int64(state.Blocked), Relayed: state.Relayed,
			Holds: []operate.Hold{}, History: []operate.Interval{}, Reasons: []operate.ReasonRows{},
		}
		d.Process = to
		p.InFlight += to.InFlight
		if !details && to.Reason != "" {
			to.Reason = withheld
		}
		for _, held := range state.Held {
			*d.Held += held.Rows
			to.Reasons = append(to.Reasons, operate.ReasonRows(held))
		}
		holdPaused(d)
		for _, h := range state.Holds {
			hold := operate.Hold{Reason: h.Reason, What: h.What, Topics: append([]string{}, h.Topics...), Error: h.Answer, Since: h.Since.UTC()}
			if !details {
				hold.What, hold.Error = h.Kind, withheld
			}
			to.Holds = append(to.Holds, hold)
		}
		for _, i := range state.History {
			to.History = append(to.History, operate.Interval{
				From: i.From, Seconds: i.Length.Seconds(), Relayed: i.Relayed, Failed: i.Failed,
				LatencyP50: seconds(i.P50), LatencyP99: seconds(i.P99),
			})
		}
	}
}

// holdPaused counts the due rows of a paused destination as held: each waits for the pause, including rows that also wait for something
// else. If nobody has counted the due rows, it is not known how many are held.
func holdPaused(d *operate.Destination) {
	p := d.Process
	if p == nil || !p.Paused {
		return
	}
	counted := slices.ContainsFunc(p.Reasons, func(r operate.ReasonRows) bool { return r.Reason == "paused" })
	if d.Due == nil {
		if !counted {
			d.Held = nil
		}
		return
	}
	if !counted {
		p.Reasons = append(p.Reasons, operate.ReasonRows{Reason: "paused", Rows: *d.Due})
	}
	held := *d.Due
	if d.Held != nil {
		held = max(held, *d.Held)
	}
	d.Held = &held
}

func seconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}
