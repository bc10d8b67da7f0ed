//go:build linux

package pgtest

import (
	"errors"
	"os"
	"path/filepath"
)

// BackUp makes a base backup for Recover. Afterwards the server keeps its log.
func (s *Server) BackUp() error {
	for _, sql := range []string{"ALTER SYSTEM SET wal_keep_size = '1GB'", "SELECT pg_reload_conf()"} {
		if err := s.SQL("postgres", sql); err != nil {
			return err
		}
	}
	return s.run("pg_basebackup", append(s.backupOptions(), "--pgdata="+s.backup())...)
}

func (s *Server) backup() string { return filepath.Join(s.dir, "backup") }

// Recover kills the server and recovers it from the backup and its log to a time (recovery_target_time), on
// a new timeline. A transaction must have committed after that time.
func (s *Server) Recover(to string) error {
	if err := s.Kill(); err != nil {
		return err
	}
	lost, signal := filepath.Join(s.dir, "lost"), filepath.Join(s.data(), "recovery.signal")
	err := errors.Join(os.Rename(s.data(), lost), os.Rename(s.backup(), s.data()))
	if err == nil {
		err = s.set(map[string]string{"restore_command": "cp " + lost + "/pg_wal/%f %p", "recovery_target_time": to, "recovery_target_action": "promote"})
	}
	if err == nil {
		err = errors.Join(os.WriteFile(signal, nil, 0o600), s.user.give(signal))
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return err
	}
	return s.await("the recovered server takes writes", "SELECT NOT pg_is_in_recovery()")
}
