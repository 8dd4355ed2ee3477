package engine

// recent remembers at least the last mostRecent values, and at most twice as many.
type recent[Key comparable, Value any] struct{ young, old map[Key]Value }

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
