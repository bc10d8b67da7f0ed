package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/kind/hadoop"
	"skein.dev/skein/internal/kind/spark"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/secret"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/threads"
)

// States of a Check.
const (
	Good    = "good"
	Warning = "warning"
	Bad     = "bad"
)

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Found  string `json:"found"`
	Remedy string `json:"remedy"` // "" if none is needed
}

// Run checks whether a node can work on this machine. It creates the data folder if that is missing, and
// writes the object with which a node tests its object store. It changes nothing else.
func Run(ctx context.Context, cfg *config.Config) []Check {
	folder := checkFolder(cfg)
	checks := []Check{folder}
	if folder.State != Bad {
		stored, level := checkStore(ctx, cfg)
		checks = append(append(checks, checkDisk(cfg)), stored...)
		checks = append(checks, checkProcesses(ctx, cfg, level)...)
	}
	checks = append(checks, checkIdentity(ctx, cfg)...)
	checks = append(checks, checkProviders(ctx, cfg)...)
	checks = append(checks, checkRegistry(ctx, cfg)...)
	checks = append(checks, checkObjects(ctx, cfg)...)
	checks = append(checks, checkPlus(ctx))
	return append(checks, checkPort(ctx, cfg), checkLoopback(cfg), checkLimits(cfg), checkThreads(), checkClock())
}

func checkFolder(cfg *config.Config) Check {
	c := Check{Name: "data folder", State: Good, Found: cfg.Data}
	if err := datadir.Prepare(cfg.Data); err != nil {
		c.State, c.Found, c.Remedy = Bad, err.Error(), "choose a folder that this user may write: --data DIR"
		if errors.Is(err, secret.ErrOpen) {
			c.Remedy = "run the command that closes it, or choose another folder: --data DIR"
		}
		return c
	}
	info, err := os.Stat(cfg.Data)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		c.State = Warning
		c.Found += fmt.Sprintf(" (mode %o: others can read logs and parameters)", info.Mode().Perm())
		c.Remedy = "chmod 700 " + cfg.Data
	}
	return c
}

// With less than diskLow free bytes, doctor warns. With less than diskNone, the check is bad.
const (
	diskLow  = 1 << 30
	diskNone = 64 << 20
)

func checkDisk(cfg *config.Config) Check {
	c := Check{Name: "disk", State: Good}
	free, _, err := monitor.Disk(cfg.Data)
	if err != nil {
		return Check{Name: "disk", State: Warning, Found: err.Error()}
	}
	c.Found = fmt.Sprintf("%d MiB free", free>>20)
	switch {
	case free < diskNone:
		c.State, c.Remedy = Bad, "make room, or choose another disk: --data DIR"
	case free < diskLow:
		c.State, c.Remedy = Warning, "make room: logs and the database grow"
	}
	return c
}

// checkStore checks the database. level is its store.Info.Isolation.
func checkStore(ctx context.Context, cfg *config.Config) (_ []Check, level string) {
	c := Check{Name: "store", State: Good}
	db, err := dbadmin.OpenReadOnly(ctx, cfg)
	if errors.Is(err, os.ErrNotExist) {
		c.Found = cfg.DBName() + " (not made yet)"
		return []Check{c}, store.IsolationNew
	}
	var more []Check
	if err == nil {
		defer db.Close()
		info, e := db.Info(ctx)
		c.Found = fmt.Sprintf("%s, format %d, %d MiB", cfg.DBName(), info.Format, info.Bytes>>20)
		err, level = e, info.Isolation
		if err == nil {
			more = append(more, checkTokens(ctx, db)...)
			more = append(more, checkSecretKey(ctx, cfg, db))
			more = append(more, checkPast(ctx, cfg, db), checkAudit(ctx, cfg, db), checkAlerts(ctx, db))
			more = append(append(more, checkHooks(ctx, db)...), checkQuotas(ctx, db)...)
			more = append(more, checkGit(ctx, db)...)
			if shared := store.Can(db).Cluster; shared != nil {
				more = append(more, checkPeers(ctx, cfg, shared))
			}
		}
		if pg, ok := db.(*postgres.DB); ok && err == nil {
			more = append(more, checkPostgres(ctx, pg)...)
		}
	}
	if err != nil {
		c.State, c.Found, c.Remedy = Bad, err.Error(), "restore a backup, or choose another data folder: --data DIR"
		switch {
		case errors.Is(err, store.ErrFull):
			c.Remedy = "make room on the disk of the database"
		case errors.Is(err, dbadmin.ErrUnreachable):
			c.Remedy = "start the database, or name another: --db"
		case errors.Is(err, store.ErrFormat):
			c.Remedy = "use the skein that wrote it, " + c.Remedy
		}
	}
	return append([]Check{c}, more...), level
}

// tokenSoon is how long before a token expires doctor warns.
const tokenSoon = 14 * 24 * time.Hour

// checkTokens names the tokens that expire soon.
func checkTokens(ctx context.Context, tokens store.Tokens) []Check {
	all, err := tokens.TokenList(ctx)
	if err != nil {
		return []Check{{Name: "tokens", State: Warning, Found: err.Error()}}
	}
	now, soon, valid := dag.Micros(time.Now().UnixMicro()), []string{}, 0
	ended := map[int64]bool{}
	if r, ok := tokens.(interface {
		Rights(ctx context.Context) (store.Rights, error)
	}); ok {
		rights, err := r.Rights(ctx)
		if err != nil {
			return []Check{{Name: "tokens", State: Warning, Found: err.Error()}}
		}
		ended = auth.Ended(all, &rights, now)
	}
	family := store.FamilyOf(all)
	for i := range all {
		t := &all[i]
		// These expire on purpose, or renew themselves.
		if !t.Valid(now) || ended[t.ID] || t.Kind == store.TokenInvite || t.Kind == store.TokenCertificate {
			continue
		}
		valid++
		if end := family.End(t); t.Replaced == 0 && end != 0 && end <= now+dag.Micros(tokenSoon.Microseconds()) {
			soon = append(soon, fmt.Sprintf("%s (%s, %s)", t.Name, t.Kind, end.Time().UTC().Format(time.DateOnly)))
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case len(soon) == 0:
		return append(checkWholeTokens(all, time.Now()), Check{Name: "tokens", State: Good, Found: fmt.Sprintf("%d valid", valid)})
	}
	found := "these expire soon: " + strings.Join(soon[:min(len(soon), tokensTold)], ", ")
	if more := len(soon) - tokensTold; more > 0 {
		found += fmt.Sprintf(" and %d more", more)
	}
	return append(checkWholeTokens(all, time.Now()), Check{Name: "tokens", State: Warning, Found: found,
		Remedy: "give their holders new ones: skein token create"})
}

// tokensTold bounds the tokens that doctor names.
const tokensTold = 10

// checkProcesses checks how a keeper holds the processes of an attempt together and ends them. It works in a
// temporary folder. level is that of checkStore.
func checkProcesses(ctx context.Context, cfg *config.Config, level string) []Check {
	dir, err := os.MkdirTemp("", "skein-doctor-")
	if err != nil {
		return []Check{{Name: "keeper", State: Warning, Found: err.Error()}}
	}
	defer os.RemoveAll(dir)
	containment, keeper := checkKeeper(ctx, dir)
	return []Check{containment, keeper, checkIsolation(cfg, level), checkContainers(cfg), checkPython(), checkProgram(spark.Kind{}), checkProgram(hadoop.Kind{})}
}

func checkPort(ctx context.Context, cfg *config.Config) Check {
	c := Check{Name: "port", State: Good, Found: cfg.Listen + " is free"}
	if h, err := datadir.Find(ctx, cfg.Data); err == nil && h != nil {
		c.Found = h.Error()
		return c
	}
	_, _, err := cfg.ListenAddress()
	if err == nil {
		err = cfg.MayListen()
	}
	if err != nil {
		return Check{Name: c.Name, State: Bad, Found: err.Error()}
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		c.Found = cfg.Listen + " is in use; the next free port will be taken"
		if cfg.ListenChosen {
			c.State, c.Found, c.Remedy = Bad, cfg.Listen+" is in use", "choose another one: --listen HOST:PORT"
		}
		return c
	}
	_ = l.Close()
	return c
}

// An attempt has at most filesPerSlot open files. The rest of the server has at most filesElse.
const (
	filesPerSlot = 8
	filesElse    = 256
)

func checkLimits(cfg *config.Config) Check {
	c := Check{Name: "limits", State: Good}
	files, procs, err := processLimits()
	if err != nil {
		return Check{Name: c.Name, State: Warning, Found: err.Error()}
	}
	c.Found = fmt.Sprintf("%d open files, %s processes, for %d slots", files, limitText(procs), cfg.Slots)
	if need := uint64(filesPerSlot*cfg.Slots + filesElse); files < need {
		c.State, c.Remedy = Warning, fmt.Sprintf("raise the limit of open files (ulimit -n %d), or use fewer --slots", need)
	}
	if procs < uint64(4*cfg.Slots) {
		c.State, c.Remedy = Warning, fmt.Sprintf("raise the limit of processes (ulimit -u %d), or use fewer --slots", 16*cfg.Slots)
	}
	return c
}

func limitText(n uint64) string {
	if n == noLimit {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// checkThreads reports the processor time that short tasks cost on this machine. The check is always good,
// because a higher cost is not a fault.
func checkThreads() Check {
	c := Check{Name: "threads", State: Good, Found: "the runtime's monitor sleeps longer, so that short tasks take less processor time"}
	if err := threads.Calm(); err != nil {
		c.Found = "short tasks take a tenth more processor time than they would as root or with CAP_SYS_NICE: " + err.Error()
	}
	return c
}

// checkClock finds a clock that was never set. Instants are stored, so a wrong clock does lasting harm.
func checkClock() Check {
	now := time.Now()
	c := Check{Name: "clock", State: Good, Found: now.UTC().Format(time.RFC3339)}
	self, err := os.Executable()
	if err != nil {
		return c
	}
	info, err := os.Stat(filepath.Clean(self))
	if err == nil && now.Add(24*time.Hour).Before(info.ModTime()) {
		c.State, c.Found, c.Remedy = Bad, c.Found+": this program was made later than that", "set the clock (chrony, systemd-timesyncd)"
	}
	return c
}
