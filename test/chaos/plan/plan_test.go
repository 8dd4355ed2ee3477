package plan

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

const ttl = 2 * time.Second

func all() Options {
	return Options{Duration: time.Minute, Crashes: true, Links: true, Settle: 8 * time.Second}
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

// Over some seeds everything happens that may, and nothing that may not.
func TestKinds(t *testing.T) {
	t.Parallel()
	everything := slices.Concat(clean, unclean, crashes)
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   []Kind
	}{
		{"all", func(*Options) {}, everything},
		{"clean", func(o *Options) { o.Clean = true }, clean},
		{"without crashes", func(o *Options) { o.Crashes = false }, slices.Concat(clean, unclean)},
		{"without links", func(o *Options) { o.Links = false }, slices.DeleteFunc(slices.Clone(everything),
			func(k Kind) bool { return slices.Contains(brokerCut, k) })},
	} {
		o := all()
		test.change(&o)
		got := map[Kind]bool{}
		for seed := range uint64(40) {
			for _, f := range New(seed, o, ttl).Faults {
				got[f.Kind] = true
			}
		}
		for _, k := range everything {
			if want := slices.Contains(test.want, k); got[k] != want {
				t.Errorf("%s: %s happens: %t", test.name, k, got[k])
			}
		}
	}
}

// A broker that has just been told of a queue is not killed.
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
