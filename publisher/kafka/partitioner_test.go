package kafka

import (
	"fmt"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// The vectors of the Java client's own test (UtilsTest.testMurmur2), and an empty key.
func TestMurmur2(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
		"":    275646681,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) is %d, want %d", key, got, want)
		}
	}
}

// kafka-go's balancer is the second witness, for keys of every length modulo four.
func TestPartitionOf(t *testing.T) {
	t.Parallel()
	partitions := []int{0, 1, 2, 3, 4, 5, 6}
	for i := range 1000 {
		key := fmt.Appendf(nil, "%0*d", i%40+1, i*i)
		want := kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: key}, partitions...)
		if got := partitionOf(murmur2(key), len(partitions)); int(got) != want {
			t.Fatalf("key %s goes to partition %d, want %d", key, got, want)
		}
	}
}
