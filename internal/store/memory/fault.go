package memory

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// OpKind is a point at which an operation may fail.
type OpKind uint8

// The points. An After point comes only if the operation succeeded.
const (
	CommitBefore OpKind = iota + 1
	CommitAfter
	AcquireBefore
	AcquireAfter
	RegisterBefore
	RegisterAfter
	Load // Store.Load: the rows that an owner needs
	Scan
	Read // every other read
	ClaimBefore
	ClaimAfter
	MemberBefore // every other operation of store.Cluster that writes
	MemberAfter
	Members
	LogsBefore // every operation of store.Logs that writes
	LogsAfter
	TokensBefore // every operation of store.Tokens that writes
	TokensAfter
	ClassesBefore // every operation of store.Classes that writes
	ClassesAfter
	RightsBefore // ChangeRights
	RightsAfter
	SessionsBefore // every operation of store.Sessions that writes
	SessionsAfter
	SecretsBefore // every operation of store.Secrets that writes
	SecretsAfter
	AuditBefore // every operation of store.AuditLog that writes
	AuditAfter
	AlertsBefore // every operation of store.Alerts that writes
	AlertsAfter
	ConnectionsBefore // every operation of store.Connections that writes
	ConnectionsAfter
	GitBefore // every operation of store.GitSources that writes
	GitAfter
	EventsBefore // AddEvents
	EventsAfter
)

var opNames = [...]string{"", "commit", "commit", "acquire", "acquire", "register", "register", "load", "scan", "read",
	"claim", "claim", "change of members", "change of members", "members",
	"change of logs", "change of logs", "change of tokens", "change of tokens",
	"change of classes", "change of classes",
	"change of rights", "change of rights", "change of sessions", "change of sessions",
	"change of secrets", "change of secrets", "change of the audit log", "change of the audit log",
	"change of alerts", "change of alerts", "change of connections", "change of connections", "change of git sources", "change of git sources",
	"events", "events"}

func (k OpKind) String() string { return opNames[k] }

// Op describes an operation for the fault hook. The store calls the hook without holding locks. So the hook
// may use the store, for example to change something between a commit and its answer. It must neither keep
// nor change the data that Op points to.
type Op struct {
	Kind   OpKind
	Batch  *store.Batch  // only for commits
	Owner  dag.HandlerID // set for acquires and claims
	Shards []dag.ShardID // set for acquires and claims
}

// Outcome is the decision of a hook about an operation.
type Outcome uint8

// The outcomes. At an After point only OK and UnknownWritten have a meaning. Any other outcome is taken as
// UnknownWritten there, because the write cannot be undone. For a read, every outcome other than OK is a
// failure.
const (
	OK             Outcome = iota
	FailBefore             // ErrUnavailable, nothing written
	UnknownWritten         // ErrUnknown, written
	UnknownLost            // ErrUnknown, not written
	Refuse                 // ErrRefused, nothing written
)

// write runs one operation that changes the store, with the injected faults around it. The change itself must
// be all or nothing.
func (s *Store) write(ctx context.Context, op Op, after OpKind, change func() error) error {
	outcome := s.fault(op)
	switch outcome {
	case FailBefore:
		return fmt.Errorf("%s: fault: %w", op.Kind, store.ErrUnavailable)
	case UnknownLost:
		return fmt.Errorf("%s: fault: %w", op.Kind, store.ErrUnknown)
	case Refuse:
		return fmt.Errorf("%s: fault: %w", op.Kind, store.ErrRefused)
	}
	if err := s.locked(ctx, op.Kind, change); err != nil {
		return err
	}
	op.Kind = after
	if s.fault(op) != OK || outcome == UnknownWritten {
		return fmt.Errorf("%s: fault: %w", op.Kind, store.ErrUnknown)
	}
	return nil
}

func (s *Store) locked(ctx context.Context, kind OpKind, change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(ctx, kind); err != nil {
		return err
	}
	return change()
}

func (s *Store) read(ctx context.Context, kind OpKind, look func() error) error {
	if s.fault(Op{Kind: kind}) != OK {
		return fmt.Errorf("%s: fault: %w", kind, store.ErrUnavailable)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usableLocked(ctx, kind); err != nil {
		return err
	}
	return look()
}

// usableLocked checks the context while the lock is held. So if a caller gave up while it waited for the
// lock, nothing is written.
func (s *Store) usableLocked(ctx context.Context, kind OpKind) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", kind, store.ErrUnavailable, err)
	}
	if s.closed {
		return fmt.Errorf("%s: closed: %w", kind, store.ErrUnavailable)
	}
	return nil
}
