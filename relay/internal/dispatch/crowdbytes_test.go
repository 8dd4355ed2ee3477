package dispatch

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Ids and keys may be long, so the memory for those that are remembered is limited in bytes, too.
func TestWhatIsRememberedIsBoundedInBytes(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	d, now := testDispatch(t), time.Now()
	var known failedKeys
	for i := range 3 * mostWaitBytes >> 20 {
		text := strconv.Itoa(i) + long
		known.add(text, int64(i))
		if !known.has(key{text: text}) {
			t.Error("a failed key is not known")
		}
		r := &Row{Row: &outbox.Row{Message: publisher.Message{ID: text}, Position: outbox.At(int64(i), text)}, Hash: uint64(i) << 40}
		d.restAlone(r, CauseUnavailable, now)
	}
	if d.waits.bytes > mostWaitBytes+2*len(long) || known.bytes > mostFailedBytes {
		t.Errorf("%d bytes of heads, %d of failed keys", d.waits.bytes, known.bytes)
	}
	for _, w := range d.waits.byKey {
		d.waits.remove(w)
	}
	if d.waits.bytes != 0 || d.waits.full() {
		t.Errorf("%d bytes are left", d.waits.bytes)
	}
}
