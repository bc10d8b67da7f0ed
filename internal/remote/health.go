package remote

// Health is the state of a worker at one moment.
type Health struct {
	Attached bool // the worker is attached to a home node
	Draining bool // the worker takes no new attempts
	Full     bool // the data folder has too little space for attempts
	Slots    int
	Running  int // attempts that have not ended
	// Unreported are attempts that have ended and whose result no node has acknowledged.
	Unreported         int
	LogLag, LogDropped int64 // bytes
}

// HealthOf returns the health of a worker.
func HealthOf(r *Worker) Health {
	lag, dropped := r.shipper.Behind()
	c := r.s.Counts()
	return Health{Attached: c.Attached, Draining: c.Draining, Full: c.Full, Slots: r.cfg.Slots, Running: c.Running, Unreported: c.Unreported,
		LogLag: lag, LogDropped: dropped}
}

// Unready returns the reason why the worker takes no attempt now. It returns "" if it takes attempts.
func (h Health) Unready() string {
	switch {
	case h.Draining:
		return "the worker is draining and takes nothing new"
	case h.Full:
		return "the data folder of the worker has no room"
	case !h.Attached:
		return "the worker is attached to no node"
	}
	return ""
}
