package server

// Weighing returns the weight of the requests in work.
func Weighing(s *Server) int64 {
	s.heavy.mu.Lock()
	defer s.heavy.mu.Unlock()
	return s.heavy.used
}
