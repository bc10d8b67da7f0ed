package worker

import (
	"errors"
	"syscall"
	"time"
)

const (
	// roomEvery is the interval at which the data folder is checked for space.
	roomEvery = time.Second
	// roomMin is the least free space for attempts, in bytes. An attempt needs some space for its folder, its
	// code, its log and the journal.
	roomMin = 512 << 10
	// inodesMin is the least number of further files for attempts, if the file system counts them.
	inodesMin = 16
	// roomTrial is the size of a trial write that finds out whether there is space again. A quota cannot be
	// detected in another way.
	roomTrial = 64 << 10
	// roomFile is the name of the file of the trial write, in <data>/work.
	roomFile = keeperFiles + "room"
)

// roomError is a start that failed because the disk of the data folder is full.
type roomError struct{ error }

func (e roomError) Unwrap() error { return e.error }

// diskFull reports whether an error means that a disk or a quota is full.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// watchRoom reports when the data folder becomes too full and when it has space again, until the Link ends.
func (l *Link) watchRoom() {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		l.roomMu.Lock()
		l.noteRoom(crowded(l.data, l.full))
		l.roomMu.Unlock()
	}
}

// crowdedBy records that an attempt ended because it found no space. It is called before the end is reported,
// so that no attempt is sent until there is space.
func (l *Link) crowdedBy(r *Result) {
	l.roomMu.Lock()
	defer l.roomMu.Unlock()
	l.noteRoom(r.Message)
}

// noteRoom reports a change. why is "" if there is space.
func (l *Link) noteRoom(why string) {
	if full := why != ""; full != l.full {
		l.full = full
		if full {
			l.log.Error("the disk of the data folder has too little free space; this machine takes no attempt until you free space", "code", "disk_full", "why", why)
		} else {
			l.log.Info("the disk has enough free space for attempts again", "code", "disk_free")
		}
		if l.cfg.Room != nil {
			l.cfg.Room(why)
		}
	}
}
