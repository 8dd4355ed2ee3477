package engine

// recent remembers at least the last mostRecent values, and at most twice as many. When the young ones are so many they
// become the old ones, and the old ones are forgotten. Nothing that the order or the delivery of rows rests on may be
// kept here: what is forgotten costs a false report of a duplicate, a violation that is not counted, or a shorter
// pause.
type recent[Key comparable, Value any] struct{ young, old map[Key]Value }

// mostRecent is what a destination accepts in some seconds at its fastest, and 3 MB for each of these memories at most.
const mostRecent = 1 << 16

func (r *recent[Key, Value]) get(k Key) (v Value, known bool) {
	if v, known = r.young[k]; !known {
		v, known = r.old[k]
	}
	return v, known
}

func (r *recent[Key, Value]) put(k Key, v Value) {
	if r.young == nil || len(r.young) >= mostRecent {
		r.young, r.old = map[Key]Value{}, r.young
	}
	r.young[k] = v
}
