package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A destination's limits have the names of the common ones, and do not replace them.
func TestLimits(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_DESTINATIONS=a,b,c", "OUTBOX_DESTINATION_A_TOPICS=a", "OUTBOX_DESTINATION_B_TOPICS=b",
		"OUTBOX_MAX_IN_FLIGHT=100", "OUTBOX_DESTINATION_A_MAX_IN_FLIGHT=90",
		"OUTBOX_DESTINATION_B_MAX_IN_FLIGHT_BYTES=1MiB",
		"OUTBOX_RATE=500/s", "OUTBOX_DESTINATION_B_RATE=30/m", "OUTBOX_DESTINATION_C_MAX_AGE=2d",
		"OUTBOX_DESTINATION_C_PAUSE=true")
	a, b, c := cfg.Destinations[0], cfg.Destinations[1], cfg.Destinations[2]
	if cfg.MaxInFlight != 100 || cfg.MaxInFlightBytes != 64<<20 || a.MaxInFlight != 90 || a.MaxInFlightBytes != 0 ||
		b.MaxInFlightBytes != 1<<20 || b.MaxInFlight != 0 {
		t.Errorf("bounds %d and %d, parts %+v and %+v", cfg.MaxInFlight, cfg.MaxInFlightBytes, a, b)
	}
	if a.Rate != 500 || b.Rate != 0.5 || c.MaxAge != 48*time.Hour || a.MaxAge != 0 {
		t.Errorf("%+v, %+v, %+v", a, b, c)
	}
	for name, s := range map[string]Switch{"all": cfg.Pause, "a": a.Pause, "c": c.Pause} {
		if on := s.On(slog.Default()); on != (name == "c") {
			t.Errorf("%s is paused: %v", name, on)
		}
	}
	one := load(t, "OUTBOX_RATE=1000/h", "OUTBOX_MAX_AGE=1h", "OUTBOX_MAX_IN_FLIGHT=7").Destinations[0]
	if one.Rate != 1000.0/3600 || one.MaxAge != time.Hour || one.MaxInFlight != 0 {
		t.Errorf("%+v", one)
	}
}

// A pause file may appear, change and disappear while the relay runs; it need not exist at the start. If it is neither
// true nor false, the state does not change and the problem is logged once.
func TestPauseFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pause")
	cfg := load(t, "OUTBOX_DESTINATIONS=a", "OUTBOX_PAUSE_FILE="+path, "OUTBOX_DESTINATION_A_PAUSE=false")
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, step := range []struct {
		text   string // "-": the file is removed
		on     bool
		logged int
	}{
		{"-", false, 0},
		{"yes", false, 1},
		{"yes", false, 1},
		{" true \r\n", true, 1},
		{"off", true, 2},
		{"", true, 3},
		{"false", false, 3},
		{"true\n", true, 3},
		{"-", false, 3},
		{"true", true, 3},
	} {
		if step.text == "-" {
			_ = os.Remove(path) // it may not exist
		} else if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if on, logged := cfg.Pause.On(logger), strings.Count(log.String(), "\n"); on != step.on || logged != step.logged {
			t.Errorf("%q: paused %v, logged %d times", step.text, on, logged)
		}
	}
	values := map[string]Value{}
	for _, v := range load(t, "OUTBOX_PAUSE_FILE="+path, "OUTBOX_DESTINATIONS=a").Values() {
		values[v.Name] = v
	}
	if v := values["OUTBOX_PAUSE"]; v.Text != "true" || v.Source != "file "+path {
		t.Errorf("%+v", v)
	}
	if v := values["OUTBOX_DESTINATION_A_PAUSE"]; v.Text != "false" || v.Source != "default" {
		t.Errorf("%+v", v)
	}
}
