package plan

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

const ttl = 2 * time.Second

func all() Options {
	return Options{Duration: time.Minute, Crashes: true, Links: true, Settle: 8 * time.Second, Destinations: 3}
}

func TestASeedIsAPlan(t *testing.T) {
	t.Parallel()
	if a, b := New(7, all(), ttl), New(7, all(), ttl); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if a, b := New(7, all(), ttl), New(8, all(), ttl); reflect.DeepEqual(a.Faults, b.Faults) {
		t.Error("two seeds have the same faults")
	}
}

// Over some seeds every permitted kind of fault occurs, and no other.
func TestKinds(t *testing.T) {
	t.Parallel()
	everything := slices.Concat(clean, unclean, crashes, several)
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   []Kind
	}{
		{"all", func(*Options) {}, everything},
		{"clean", func(o *Options) { o.Clean = true }, slices.Concat(clean, several)},
		{"without crashes", func(o *Options) { o.Crashes = false }, slices.Concat(clean, unclean, several)},
		{"one destination", func(o *Options) { o.Destinations = 1 }, slices.Concat(clean, unclean, crashes)},
		{"without links", func(o *Options) { o.Links = false }, slices.DeleteFunc(slices.Clone(everything),
			func(k Kind) bool { return slices.Contains(brokerCut, k) })},
	} {
		o := all()
		test.change(&o)
		got, destinations := map[Kind]bool{}, map[int]bool{}
		for seed := range uint64(40) {
			for _, f := range New(seed, o, ttl).Faults {
				got[f.Kind], destinations[f.To] = true, true
			}
		}
		if len(destinations) != o.Destinations {
			t.Errorf("%s: faults of the destinations %v", test.name, destinations)
		}
		for _, k := range everything {
			if want := slices.Contains(test.want, k); got[k] != want {
				t.Errorf("%s: %s happens: %t", test.name, k, got[k])
			}
		}
	}
}

// A broker on which a queue has just been declared is not killed.
func TestCrashesLeaveNewQueuesAlone(t *testing.T) {
	t.Parallel()
	o := all()
	for seed := range uint64(200) {
		p := New(seed, o, ttl)
		for _, f := range p.Faults {
			if f.Kind == CrashBroker && (f.At < o.Settle || f.At >= p.Topic && f.At < p.Topic+o.Settle) {
				t.Errorf("seed %d: crash at %v, topic made at %v", seed, f.At, p.Topic)
			}
			if f.Kind == Freeze && f.Lasts <= ttl {
				t.Errorf("seed %d: frozen for %v", seed, f.Lasts)
			}
		}
	}
}

func TestReplicasAreWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	o := all()
	o.Replicas = 3
	for seed := range uint64(10) {
		if n := New(seed, o, ttl).Replicas; n != 3 {
			t.Errorf("seed %d: %d replicas", seed, n)
		}
	}
}
