package engine

import (
	"container/heap"
	"time"
)

// alarms are a heap of items by the time at which each has to be looked at. The earliest is at the front. Each item
// knows its place, so that one of 100,000 is moved or removed without a search. An item whose time has changed is not
// found at the front in time until Set is called for it.
type alarms[T interface {
	When() time.Time
	Place() *int // -1 while it is not among them
}] []T

// Set adds x, or moves it to the place of its present time.
func (a *alarms[T]) Set(x T) {
	if at := *x.Place(); at >= 0 {
		heap.Fix(a, at)
	} else {
		heap.Push(a, x)
	}
}

// Cancel removes x if it is there.
func (a *alarms[T]) Cancel(x T) {
	if at := *x.Place(); at >= 0 {
		heap.Remove(a, at)
	}
}

func (a alarms[T]) Len() int           { return len(a) }
func (a alarms[T]) Less(i, j int) bool { return a[i].When().Before(a[j].When()) }
func (a alarms[T]) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	*a[i].Place(), *a[j].Place() = i, j
}

// Push implements heap.Interface.
func (a *alarms[T]) Push(x any) {
	*x.(T).Place() = len(*a)
	*a = append(*a, x.(T))
}

// Pop implements heap.Interface.
func (a *alarms[T]) Pop() any {
	old := *a
	last := old[len(old)-1]
	clear(old[len(old)-1:])
	*a = old[:len(old)-1]
	*last.Place() = -1
	return last
}
