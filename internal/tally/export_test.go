package tally

// Held is the number of ends that wait for the folder.
func (f *Folder) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}
