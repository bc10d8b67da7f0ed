package home

// Cordoned reports whether a worker that is attached here is cordoned.
func (h *Home) Cordoned(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		if w.member.Name == name {
			return w.member.Cordoned
		}
	}
	return false
}

// Seize holds the home's lock until release is called.
func (h *Home) Seize() (release func()) {
	h.mu.Lock()
	return h.mu.Unlock
}
