package connect

import (
	"context"
	"time"
)

// LoginTurn is how long one of several servers may take to connect and log in, which is up to sixteen round trips.
const LoginTurn = 2 * time.Second

// InTurn tries the addresses one after the other and returns the first result, or the last failure. Each one but the
// last has the given time, so that addresses that do not answer leave time for one that does. The last one has whatever
// ctx leaves, so that a slow server is waited for in the end. Results must not depend on the context of open.
func InTurn[A, R any](
	ctx context.Context, each time.Duration, addresses []A, open func(context.Context, A) (R, error),
) (result R, err error) {
	for i, address := range addresses {
		turn, end := ctx, func() {}
		if i < len(addresses)-1 {
			turn, end = context.WithTimeout(ctx, each)
		}
		result, err = open(turn, address)
		if end(); err == nil || ctx.Err() != nil {
			break
		}
	}
	return result, err
}
