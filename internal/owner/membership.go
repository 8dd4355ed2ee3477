package owner

import (
	"fmt"
	"hash/fnv"

	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// A membership is what a replica shows to the others: the number of a lock that it holds in shared mode. Replicas own
// shards of a group side by side only if they agree about the number of shards, and about the way in which each row's
// shard, place in the order and destination are found.
//
//	bit 30      set
//	bit 29      the replica cannot publish
//	bits 19-28  shards less one
//	bits 0-18   the hash of the mapping
type membership struct {
	Of      int    // number of shards into which the replica divides the rows
	Able    bool   // the replica says that it can publish
	mapping uint32 // a hash, of mappingBits
}

const (
	mappingBits = 19
	memberBit   = 1 << 30
	unableBit   = 1 << 29
	shardsMask  = MaxShards - 1
	mappingMask = 1<<mappingBits - 1
)

// membershipOf returns the membership of a replica with this number of shards and this mapping.
func membershipOf(shards int, mapping string, able bool) membership {
	h := fnv.New32a()
	_, _ = h.Write([]byte(mapping)) // a hash never fails
	sum := h.Sum32()
	return membership{Of: shards, Able: able, mapping: (sum ^ sum>>mappingBits) & mappingMask}
}

// number returns the number of the lock.
func (m membership) number() int {
	n := memberBit | (m.Of-1)<<mappingBits | int(m.mapping)
	if !m.Able {
		n |= unableBit
	}
	return n
}

// memberOf is the reverse of number.
func memberOf(number int) membership {
	return membership{
		Of: number>>mappingBits&shardsMask + 1, Able: number&unableBit == 0, mapping: uint32(number & mappingMask),
	}
}

// like reports whether the two replicas may own shards side by side.
func (m membership) like(other membership) bool {
	return m.Of == other.Of && m.mapping == other.mapping
}

// why returns the reason why a replica waits while one that is not like it relays.
func (m membership) why(other membership, names setting.Names) string {
	if m.Of != other.Of {
		return fmt.Sprintf("replicas with %s=%d relay at present; this one has %d and waits until they are gone",
			names.Of("Shards"), other.Of, m.Of)
	}
	return fmt.Sprintf("replicas relay at present that have other destinations in the same columns, or other topics "+
		"for them; or that take the key, the id, the order or the priority of rows from other columns, because of %s, "+
		"%s or columns that have changed; this one waits until they are gone", names.Of("Key"), names.Of("Columns"))
}
