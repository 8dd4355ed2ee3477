package inspect

import (
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Tested adds the finding about which server answers, and whether its version is at least major.minor. found is what
// the server calls itself: the product and the version.
func Tested(f *finding.List, address, found, product string, major, minor int) {
	var is [2]int
	_, err := fmt.Sscanf(found, product+" %d.%d", &is[0], &is[1])
	f.Add(Version, address,
		finding.WarnIf(err != nil || is[0] < major || is[0] == major && is[1] < minor,
			fmt.Sprintf("it calls itself %.80q, which the relay is not tested with", found),
			fmt.Sprintf("use %s %d.%d or newer", product, major, minor)),
		finding.OKIf(true, found))
}

// Legal returns the addresses that messages can have, and adds a finding for each of the others. check returns why no
// message can have an address, nil if one can.
func Legal(f *finding.List, addresses []publisher.Address, names setting.Names, check func(publisher.Address) error) (
	legal []publisher.Address,
) {
	for _, address := range addresses {
		if err := check(address); err != nil {
			f.Fail(Topic, fmt.Sprintf("%.100q", address.Topic), err.Error()+", so its rows fail",
				"correct the rows' topic, or "+names.Of("Topic"))
			continue
		}
		legal = append(legal, address)
	}
	return legal
}
