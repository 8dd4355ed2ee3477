package kept

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// An answer is one that a test decides.
type answer struct {
	state    State
	released int
}

func (a *answer) State(time.Time) State { return a.state }
func (a *answer) Release()              { a.released++ }

func TestTable(t *testing.T) {
	t.Parallel()
	id, sent := ID{"ex", "topic", "1"}, publisher.Message{Payload: []byte("payload")}
	for name, test := range map[string]struct {
		state State
		found publisher.Message
		want  State
	}{
		"still waited for":              {Waits, sent, Waits},
		"answered":                      {Answered, sent, Answered},
		"lost":                          {Lost, sent, Lost},
		"corrected while waited for":    {Waits, publisher.Message{Payload: []byte("corrected")}, None},
		"corrected after it was stored": {Answered, publisher.Message{}, None},
		"with another key":              {Answered, publisher.Message{Payload: sent.Payload, Key: []byte{}}, None},
		"with another header": {
			Answered, publisher.Message{Payload: sent.Payload, Headers: []publisher.Header{{}}}, None,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var table Table[*answer]
			a := &answer{state: test.state}
			table.Keep(id, &sent, a)
			if _, state := table.Find(ID{"ex", "other", "1"}, &sent); state != None {
				t.Errorf("a message to another topic is %v", state)
			}
			for range 2 {
				if found, state := table.Find(id, &test.found); state != test.want || state != None && found != a {
					t.Errorf("found %v %v, want %v", found, state, test.want)
				}
				if test.want == None || test.want == Lost {
					break
				}
			}
			table.Told(id)
			if _, state := table.Find(id, &test.found); state != None || table.Any() || a.released != 1 {
				t.Errorf("found %v once it was told, released %d times", state, a.released)
			}
		})
	}
}

// An answer that no call asks for is not waited for beyond its time. It is known for a while that the message was sent.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table[*answer]
		a := &answer{state: Waits}
		var m publisher.Message
		table.Keep(ID{ID: "1"}, &m, a)
		table.Keep(ID{ID: "2"}, &m, a)
		for _, step := range []struct {
			state    State
			after    time.Duration
			released int
		}{{Waits, time.Second, 0}, {Lost, time.Second, 2}, {Lost, knownFor / 2, 2}} {
			a.state = step.state
			time.Sleep(step.after)
			if table.Sweep(); a.released != step.released {
				t.Errorf("released %d times, want %d", a.released, step.released)
			}
		}
		if _, state := table.Find(ID{ID: "1"}, &m); state != Lost {
			t.Errorf("the message is %v, want that it was sent", state)
		}
		table.Keep(ID{ID: "3"}, &m, &answer{state: Answered})
		time.Sleep(knownFor + time.Second)
		if table.Sweep(); len(table.all) != 0 {
			t.Errorf("%d messages are never forgotten", len(table.all))
		}
	})
}
