package worker

import (
	"errors"
	"syscall"
	"time"
)

const (
	// roomEvery is the pause between two looks whether the data folder has room for attempts.
	roomEvery = time.Second
	// roomMin is how much must be free, in bytes: an attempt needs some for its folder, its code, its log and the
	// journal.
	roomMin = 512 << 10
	// inodesMin is how many files must still be possible, where they are counted.
	inodesMin = 16
	// roomTrial is what is written to find out that there is room again: a quota shows no otherwise.
	roomTrial = 64 << 10
	// roomFile is the name of what is written then, in <data>/work.
	roomFile = keeperFiles + "room"
)

// roomError is a start that failed because the disk of the data folder is full.
type roomError struct{ error }

func (e roomError) Unwrap() error { return e.error }

// diskFull reports whether an error says that a disk, or what a user may have of it, is full.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// watchRoom tells of room that goes and comes until the Link ends.
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

// crowdedBy notes that an attempt had no room, before its end is reported: nothing else is to come until
// there is.
func (l *Link) crowdedBy(r *Result) {
	l.roomMu.Lock()
	defer l.roomMu.Unlock()
	l.noteRoom(r.Message)
}

// noteRoom tells of a change. why is "" when there is room.
func (l *Link) noteRoom(why string) {
	if full := why != ""; full != l.full {
		l.full = full
		if full {
			l.log.Error("the disk has too little free space; no attempt is taken until it has more", "code", "disk_full", "why", why)
		} else {
			l.log.Info("the disk has enough free space for attempts again", "code", "disk_free")
		}
		if l.cfg.Room != nil {
			l.cfg.Room(why)
		}
	}
}
