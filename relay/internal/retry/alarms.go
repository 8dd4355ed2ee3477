package retry

import (
	"container/heap"
	"time"
)

// Alarms are a heap of items by the time at which each has to be looked at. The earliest is at the front.
type Alarms[T timed] []T

// timed is an item of Alarms. Its place is -1 while it is not among them.
type timed interface {
	When() time.Time
	Place() *int
}

// Set adds x, or moves it to the place of its present time.
func (a *Alarms[T]) Set(x T) {
	if at := *x.Place(); at >= 0 {
		heap.Fix(a, at)
	} else {
		heap.Push(a, x)
	}
}

// Cancel removes x if it is there.
func (a *Alarms[T]) Cancel(x T) {
	if at := *x.Place(); at >= 0 {
		heap.Remove(a, at)
	}
}

// Past returns the first item if its time has come.
func (a Alarms[T]) Past(now time.Time) (first T, ok bool) {
	if len(a) == 0 || a[0].When().After(now) {
		return first, false
	}
	return a[0], true
}

func (a Alarms[T]) Len() int           { return len(a) }
func (a Alarms[T]) Less(i, j int) bool { return a[i].When().Before(a[j].When()) }
func (a Alarms[T]) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	*a[i].Place(), *a[j].Place() = i, j
}

// Push implements heap.Interface.
func (a *Alarms[T]) Push(x any) {
	*x.(T).Place() = len(*a)
	*a = append(*a, x.(T))
}

// Pop implements heap.Interface.
func (a *Alarms[T]) Pop() any {
	old := *a
	last := old[len(old)-1]
	clear(old[len(old)-1:])
	*a = old[:len(old)-1]
	*last.Place() = -1
	return last
}
