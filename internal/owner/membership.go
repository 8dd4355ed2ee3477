package owner

import (
	"fmt"
	"hash/fnv"

	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// A kind is what replicas must have in common to own shards of one group side by side: the number of shards, and the
// way each row's shard, place in the order and destination are found.
type kind struct {
	shards  int
	mapping uint32 // a hash, of mappingBits
}

// A membership is what a replica shows to the others: the number of a lock that it holds in shared mode.
//
//	bit 30      set
//	bit 29      the replica cannot publish
//	bits 19-28  shards less one
//	bits 0-18   the hash of the mapping
type membership struct {
	kind
	able bool
}

const (
	mappingBits = 19
	memberBit   = 1 << 30
	unableBit   = 1 << 29
	shardsMask  = MaxShards - 1
	mappingMask = 1<<mappingBits - 1
)

// kindOf returns the kind of a replica with this number of shards and this mapping.
func kindOf(shards int, mapping string) kind {
	h := fnv.New32a()
	_, _ = h.Write([]byte(mapping)) // a hash never fails
	sum := h.Sum32()
	return kind{shards: shards, mapping: (sum ^ sum>>mappingBits) & mappingMask}
}

// number returns the number of the lock.
func (m membership) number() int {
	n := memberBit | (m.shards-1)<<mappingBits | int(m.mapping)
	if !m.able {
		n |= unableBit
	}
	return n
}

// memberOf is the reverse of number.
func memberOf(number int) membership {
	k := kind{shards: number>>mappingBits&shardsMask + 1, mapping: uint32(number & mappingMask)}
	return membership{k, number&unableBit == 0}
}

// why returns the reason why k waits while the other kind relays.
func (k kind) why(other kind, names setting.Names) string {
	if k.shards != other.shards {
		return fmt.Sprintf("replicas with %s=%d relay at present; this one has %d and waits until they are gone",
			names.Of("Shards"), other.shards, k.shards)
	}
	return fmt.Sprintf("replicas relay at present that have other destinations in the same columns, or other topics "+
		"for them; or that take the key, the id, the order or the priority of rows from other columns, because of %s, "+
		"%s or columns that have changed; this one waits until they are gone", names.Of("Key"), names.Of("Columns"))
}
