package relay

import (
	"container/heap"
	"time"
)

// alarms are what has to be looked at at a time, the first of them in front.
type alarms[T timed] []T

// timed is looked at at a time. Its place among the alarms is -1 while it is not there.
type timed interface {
	when() time.Time
	place() *int
}

// set adds x, or moves it to where its present time belongs.
func (a *alarms[T]) set(x T) {
	if at := *x.place(); at >= 0 {
		heap.Fix(a, at)
	} else {
		heap.Push(a, x)
	}
}

// cancel takes x away if it is there.
func (a *alarms[T]) cancel(x T) {
	if at := *x.place(); at >= 0 {
		heap.Remove(a, at)
	}
}

// past returns the first one if its time has come.
func (a alarms[T]) past(now time.Time) (first T, ok bool) {
	if len(a) == 0 || a[0].when().After(now) {
		return first, false
	}
	return a[0], true
}

func (a alarms[T]) Len() int           { return len(a) }
func (a alarms[T]) Less(i, j int) bool { return a[i].when().Before(a[j].when()) }
func (a alarms[T]) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	*a[i].place(), *a[j].place() = i, j
}
func (a *alarms[T]) Push(x any) {
	*x.(T).place() = len(*a)
	*a = append(*a, x.(T))
}
func (a *alarms[T]) Pop() any {
	old := *a
	last := old[len(old)-1]
	clear(old[len(old)-1:])
	*a = old[:len(old)-1]
	*last.place() = -1
	return last
}
