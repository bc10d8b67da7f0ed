package tally

// Held returns the number of ends that wait for the folder.
func (f *Folder) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

// Woken reports whether an early step was requested, and removes the request.
func (f *Folder) Woken() bool {
	select {
	case <-f.wake:
		return true
	default:
		return false
	}
}
