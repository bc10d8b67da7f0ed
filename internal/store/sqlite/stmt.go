package sqlite

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

// stmt is a prepared statement of the writer that binds by position. It binds values that repeat from row to
// row (states, users, handlers, zeroes) only once. SQLite keeps a binding until it is replaced, and each
// binding of a text allocates memory in SQLite.
type stmt struct {
	*sqlite.Stmt
	name string
	last []bound // the last binding, by position - 1
	pos  int
	fail error // the error of the first value that was refused
}

// bound is the value of a position, unless comparing it would cost too much.
type bound struct {
	kind boundKind
	n    int64
	text string
}

type boundKind uint8

const (
	boundUnknown boundKind = iota
	boundNull
	boundInt
	boundText
)

// prepare prepares a statement with the hint that it will be kept. Without the hint, the program of the
// statement would occupy the few blocks of memory that a connection has for the work of a step, and each step
// would take its cursors from the heap, which may map and unmap a page every time. The name makes the text
// unique, because the connection returns the same statement for the same text.
func prepare(conn *sqlite.Conn, name string, from map[string]string) (*stmt, error) {
	if from[name] == "" {
		return nil, fmt.Errorf("there is no statement %s", name)
	}
	s, err := conn.Prepare("-- the writer's " + name + "\n" + from[name])
	if err != nil {
		return nil, fmt.Errorf("statement %s: %w", name, err)
	}
	return &stmt{Stmt: s, name: name, last: make([]bound, s.BindParamCount())}, nil
}

// row begins a row's values.
func (s *stmt) row() *stmt {
	s.pos, s.fail = 0, nil
	return s
}

// keeps reports whether the next position already has this value. It records the value.
func (s *stmt) keeps(v bound) bool {
	s.pos++
	if s.last[s.pos-1] == v {
		return true
	}
	s.last[s.pos-1] = v
	return false
}

func (s *stmt) int(v int64) *stmt {
	if !s.keeps(bound{kind: boundInt, n: v}) {
		s.BindInt64(s.pos, v)
	}
	return s
}

func (s *stmt) text(v string) *stmt {
	if s.keeps(bound{kind: boundText, text: v}) {
		return s
	}
	if err := checkText(v); err != nil {
		s.fail = fmt.Errorf("%s: %w", s.name, err)
	}
	s.BindText(s.pos, v)
	return s
}

// textOrNull binds a text, or NULL for "".
func (s *stmt) textOrNull(v string) *stmt {
	if v == "" {
		return s.null()
	}
	return s.text(v)
}

func (s *stmt) null() *stmt {
	if !s.keeps(bound{kind: boundNull}) {
		s.BindNull(s.pos)
	}
	return s
}

// blob binds bytes, or NULL for nil.
func (s *stmt) blob(v []byte) *stmt {
	if v == nil {
		return s.null()
	}
	s.keeps(bound{})
	if len(v) > textMax {
		s.fail = fmt.Errorf("%s: a value of %d bytes: %w", s.name, len(v), store.ErrRefused)
		return s
	}
	s.BindBytes(s.pos, v)
	return s
}

// exec runs the statement and returns the number of changed rows.
func (s *stmt) exec(conn *sqlite.Conn) (int, error) {
	if s.fail != nil {
		return 0, s.fail
	}
	_, err := s.Step()
	if err == nil {
		err = s.Reset()
	}
	if err != nil {
		return 0, translate(s.name, err)
	}
	return conn.Changes(), nil
}

// each calls the function see for the rows of the statement.
func (s *stmt) each(see func(row) error) error {
	for {
		more, err := s.Step()
		if err != nil || !more {
			return errors.Join(translate(s.name, err), s.Reset())
		}
		if err := see(row{s: s.Stmt}); err != nil {
			return errors.Join(err, s.Reset())
		}
	}
}

// one runs a guarded statement. It returns an error unless the statement has changed one row.
func (s *stmt) one(conn *sqlite.Conn) error {
	n, err := s.exec(conn)
	if err == nil && n != 1 {
		err = fmt.Errorf("%s: the row is not in the state that its owner has in memory: %w", s.name, store.ErrFenced)
	}
	return err
}

// writeStmts are the statements of the writer.
type writeStmts struct {
	begin, commit, rollback        *stmt
	fence, acquire, raise          *stmt
	readRoll, writeRoll, dropRoll  *stmt
	insertRun, runNumber           *stmt
	insertKey, expireKey           *stmt
	insertHash, expireHash         *stmt
	beginRead, keyThere, hashThere *stmt
	insertHashes, hashOfRun        *stmt
	hashesThere, keyTaken, keyed   *stmt
	updateRun, beginRun, endRun    *stmt
	fillRun                        *stmt
	insertAttempt, updateAttempt   *stmt
	firstAttempt, attemptsThere    *stmt
	packedOfRun                    *stmt
	insertEvent                    *stmt
	insertWorkflow, updateWorkflow *stmt
	insertVersion, insertFile      *stmt
	insertRequest                  *stmt
	insertMessage, consumeMessage  *stmt
	insertHandler                  *stmt
	raiseWatermark                 *stmt
	insertTrigger, dropTrigger     *stmt
	moveTrigger, editTrigger       *stmt
	whatTriggerHears, hear, unhear *stmt
	insertFire, updateFire         *stmt
	insertBackfill, updateBackfill *stmt
	insertBackfillRun              *stmt
	holdShard, expireRun           *stmt
	expireAttempts, expireEvents   *stmt
	insertToken, revokeToken       *stmt
	replaceToken, succeedToken     *stmt
	joinToken, useInvite           *stmt
	renewToken                     *stmt
	insertSession, useSession      *stmt
	endSession, dropOverSessions   *stmt
	dropOldSessions                *stmt
	putSecret, rewrapSecret        *stmt
	dropSecret, setSecretKey       *stmt
	dropSessionsOf                 *stmt
	dropAllSessionsOf              *stmt
	joinMember, attachMember       *stmt
	leaveMember                    *stmt
	moveRights, insertPrincipal    *stmt
	setPrincipal, dropPrincipal    *stmt
	unbindPrincipal, unbindRole    *stmt
	putRole, dropRole              *stmt
	bind, unbind                   *stmt
	putPassword, dropPassword      *stmt
	identify, dropIdentities       *stmt
	putClass, dropClass            *stmt
	putNamespace, putUse, quotasOf *stmt
	putStock, stockOf              *stmt
	moveNode, addNode              *stmt
	expireFiles, expireVersions    *stmt
	comeToLine, lineUpTo           *stmt
	thinLine, dropLine             *stmt
	insertQueue, updateQueue       *stmt
	deleteQueue, paceQueue         *stmt
	insertAudit, indexAudit        *stmt
	moveAuditTree, dropAudit       *stmt
	putAlertChannel                *stmt
	dropAlertChannel               *stmt
	putAlertRules                  *stmt
	forgetLost, noteLost           *stmt
	findMember                     *stmt
	putConnection, dropConnection  *stmt
	putGitSource, dropGitSource    *stmt
	setGitState                    *stmt
	expireSilences                 *stmt
	putSilence                     *stmt
	endSilence                     *stmt
	insertIncident, updateIncident *stmt
	insertNotice, noteNotice       *stmt
	endedIncidents, expireNotices  *stmt
	expireIncident                 *stmt
	all                            []*stmt
}

func (w *writeStmts) prepare(conn *sqlite.Conn, from map[string]string) error {
	from["begin"], from["commit"], from["rollback"] = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"
	from["beginRead"] = "BEGIN"
	w.all = nil
	for _, s := range []struct {
		name string
		to   **stmt
	}{
		{"begin", &w.begin}, {"commit", &w.commit}, {"rollback", &w.rollback},
		{"fence", &w.fence}, {"acquire", &w.acquire}, {"raise", &w.raise},
		{"readRoll", &w.readRoll}, {"writeRoll", &w.writeRoll}, {"dropRoll", &w.dropRoll},
		{"insertRun", &w.insertRun}, {"runNumber", &w.runNumber},
		{"insertKey", &w.insertKey}, {"expireKey", &w.expireKey}, {"beginRead", &w.beginRead}, {"keyThere", &w.keyThere}, {"keyTaken", &w.keyTaken}, {"keyed", &w.keyed},
		{"insertHash", &w.insertHash}, {"insertHashes", &w.insertHashes}, {"expireHash", &w.expireHash}, {"hashThere", &w.hashThere}, {"hashesThere", &w.hashesThere}, {"hashOfRun", &w.hashOfRun},
		{"updateRun", &w.updateRun}, {"beginRun", &w.beginRun}, {"endRun", &w.endRun}, {"fillRun", &w.fillRun},
		{"insertAttempt", &w.insertAttempt}, {"updateAttempt", &w.updateAttempt},
		{"firstAttempt", &w.firstAttempt}, {"attemptsThere", &w.attemptsThere}, {"packedOfRun", &w.packedOfRun},
		{"insertEvent", &w.insertEvent},
		{"insertWorkflow", &w.insertWorkflow}, {"updateWorkflow", &w.updateWorkflow},
		{"insertVersion", &w.insertVersion}, {"insertFile", &w.insertFile},
		{"insertRequest", &w.insertRequest},
		{"insertMessage", &w.insertMessage}, {"consumeMessage", &w.consumeMessage},
		{"insertHandler", &w.insertHandler},
		{"raiseWatermark", &w.raiseWatermark},
		{"insertTrigger", &w.insertTrigger}, {"dropTrigger", &w.dropTrigger},
		{"moveTrigger", &w.moveTrigger}, {"editTrigger", &w.editTrigger},
		{"whatTriggerHears", &w.whatTriggerHears}, {"hear", &w.hear}, {"unhear", &w.unhear},
		{"insertFire", &w.insertFire}, {"updateFire", &w.updateFire},
		{"insertBackfill", &w.insertBackfill}, {"updateBackfill", &w.updateBackfill},
		{"insertBackfillRun", &w.insertBackfillRun},
		{"holdShard", &w.holdShard}, {"expireRun", &w.expireRun},
		{"expireAttempts", &w.expireAttempts}, {"expireEvents", &w.expireEvents},
		{"insertToken", &w.insertToken}, {"revokeToken", &w.revokeToken},
		{"replaceToken", &w.replaceToken}, {"succeedToken", &w.succeedToken},
		{"joinToken", &w.joinToken}, {"useInvite", &w.useInvite}, {"renewToken", &w.renewToken}, {"moveNode", &w.moveNode}, {"addNode", &w.addNode},
		{"insertSession", &w.insertSession}, {"useSession", &w.useSession}, {"endSession", &w.endSession},
		{"dropOverSessions", &w.dropOverSessions}, {"dropOldSessions", &w.dropOldSessions},
		{"putSecret", &w.putSecret}, {"rewrapSecret", &w.rewrapSecret}, {"dropSecret", &w.dropSecret}, {"setSecretKey", &w.setSecretKey}, {"dropSessionsOf", &w.dropSessionsOf},
		{"dropAllSessionsOf", &w.dropAllSessionsOf},
		{"joinMember", &w.joinMember}, {"attachMember", &w.attachMember}, {"leaveMember", &w.leaveMember},
		{"moveRights", &w.moveRights}, {"insertPrincipal", &w.insertPrincipal}, {"setPrincipal", &w.setPrincipal},
		{"dropPrincipal", &w.dropPrincipal}, {"unbindPrincipal", &w.unbindPrincipal}, {"unbindRole", &w.unbindRole},
		{"putRole", &w.putRole}, {"dropRole", &w.dropRole}, {"bind", &w.bind}, {"unbind", &w.unbind},
		{"putPassword", &w.putPassword}, {"dropPassword", &w.dropPassword},
		{"identify", &w.identify}, {"dropIdentities", &w.dropIdentities},
		{"expireFiles", &w.expireFiles}, {"expireVersions", &w.expireVersions},
		{"putClass", &w.putClass}, {"dropClass", &w.dropClass},
		{"putNamespace", &w.putNamespace}, {"putUse", &w.putUse}, {"quotasOf", &w.quotasOf}, {"putStock", &w.putStock}, {"stockOf", &w.stockOf},
		{"comeToLine", &w.comeToLine}, {"lineUpTo", &w.lineUpTo}, {"thinLine", &w.thinLine}, {"dropLine", &w.dropLine},
		{"insertQueue", &w.insertQueue}, {"updateQueue", &w.updateQueue},
		{"deleteQueue", &w.deleteQueue}, {"paceQueue", &w.paceQueue},
		{"insertAudit", &w.insertAudit}, {"indexAudit", &w.indexAudit}, {"moveAuditTree", &w.moveAuditTree}, {"dropAudit", &w.dropAudit},
		{"putConnection", &w.putConnection}, {"dropConnection", &w.dropConnection},
		{"putGitSource", &w.putGitSource}, {"dropGitSource", &w.dropGitSource}, {"setGitState", &w.setGitState},
		{"putAlertChannel", &w.putAlertChannel}, {"dropAlertChannel", &w.dropAlertChannel}, {"putAlertRules", &w.putAlertRules},
		{"forgetLost", &w.forgetLost}, {"noteLost", &w.noteLost}, {"findMember", &w.findMember},
		{"expireSilences", &w.expireSilences}, {"putSilence", &w.putSilence}, {"endSilence", &w.endSilence},
		{"insertIncident", &w.insertIncident}, {"updateIncident", &w.updateIncident}, {"insertNotice", &w.insertNotice}, {"noteNotice", &w.noteNotice},
		{"endedIncidents", &w.endedIncidents}, {"expireNotices", &w.expireNotices}, {"expireIncident", &w.expireIncident},
	} {
		p, err := prepare(conn, s.name, from)
		if err != nil {
			w.finalize()
			return err
		}
		*s.to = p
		w.all = append(w.all, p)
	}
	return nil
}

func (w *writeStmts) finalize() {
	for _, s := range w.all {
		_ = s.Finalize()
	}
	w.all = nil
}
