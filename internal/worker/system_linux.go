package worker

// Supported returns an error if this system cannot run attempts.
func Supported() error { return nil }
