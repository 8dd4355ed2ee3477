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
type membership int32

const (
	mappingBits = 19
	memberBit   = 1 << 30
	unableBit   = 1 << 29
)

// membershipOf returns the membership of a replica with this number of shards and this mapping.
func membershipOf(shards int, mapping string, able bool) membership {
	h := fnv.New32a()
	_, _ = h.Write([]byte(mapping)) // a hash never fails
	sum := h.Sum32()
	m := memberBit | membership(shards-1)<<mappingBits | membership((sum^sum>>mappingBits)&(1<<mappingBits-1))
	if !able {
		m |= unableBit
	}
	return m
}

// Of returns the number of shards into which the replica divides the rows.
func (m membership) Of() int { return int(m>>mappingBits)&(MaxShards-1) + 1 }

// Able reports whether the replica says that it can publish.
func (m membership) Able() bool { return m&unableBit == 0 }

// like reports whether the two replicas may own shards side by side.
func (m membership) like(other membership) bool { return (m^other)&^unableBit == 0 }

// waits returns the reason why a replica waits while one that is not like it relays.
func (m membership) waits(other membership, names setting.Names) string {
	return fmt.Sprintf("replicas relay at present that divide the rows into %d shards (%s), and this one into %d; or "+
		"that have other destinations in the same columns, other topics for them, or take the key, the id, the order "+
		"or the priority of rows from other columns (%s, %s, or columns that have changed); this one waits until they "+
		"are gone", other.Of(), names.Of("Shards"), m.Of(), names.Of("Key"), names.Of("Columns"))
}
