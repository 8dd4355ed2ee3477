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

// onNodes returns the kinds of faults of a broker of three nodes.
func onNodes() []Kind {
	return without(slices.Concat(clean, unclean, several, nodes, []Kind{CrashData, MoveLeaders}), brokerCut...)
}

func without(kinds []Kind, these ...Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return slices.Contains(these, k) })
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
		{"three nodes of Kafka", func(o *Options) { o.Cluster = "kafka" }, onNodes()},
		{"three nodes of NATS", func(o *Options) { o.Cluster = "nats" }, append(onNodes(), LameDuck)},
		{"three nodes of RabbitMQ", func(o *Options) { o.Cluster = "rabbitmq" }, append(onNodes(), Minority)},
		{
			"three nodes, clean", func(o *Options) { o.Cluster, o.Clean = "nats", true },
			without(slices.Concat(clean, several, []Kind{MoveLeaders}), brokerCut...),
		},
		{"without links", func(o *Options) { o.Links = false }, without(everything, brokerCut...)},
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
		for _, k := range slices.Concat(everything, nodes, []Kind{MoveLeaders, LameDuck, Minority}) {
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

// Each node is drawn, and a fault of one lasts long enough for the others to notice, at times.
func TestEachNodeFails(t *testing.T) {
	t.Parallel()
	o := all()
	o.Cluster = "rabbitmq"
	picked := map[Kind]map[int]bool{}
	longest := time.Duration(0)
	for seed := range uint64(100) {
		p := New(seed, o, ttl)
		if !reflect.DeepEqual(p, New(seed, o, ttl)) {
			t.Fatalf("seed %d has two plans", seed)
		}
		for _, f := range p.Faults {
			if !f.OfNode() {
				continue
			}
			if picked[f.Kind] == nil {
				picked[f.Kind] = map[int]bool{}
			}
			picked[f.Kind][f.Pick] = true
			longest = max(longest, f.Lasts)
			if f.Unclean() > 0 && (f.At < o.Settle || f.At >= p.Topic && f.At < p.Topic+o.Settle) {
				t.Errorf("seed %d: %s at %v, topic made at %v", seed, f, f.At, p.Topic)
			}
		}
	}
	for kind, of := range picked {
		if len(of) != 3 || of[3] {
			t.Errorf("%s: picked %v", kind, of)
		}
	}
	if len(picked) != len(nodes)+2 || longest < 5*time.Second {
		t.Errorf("%d kinds, the longest lasts %v", len(picked), longest)
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
