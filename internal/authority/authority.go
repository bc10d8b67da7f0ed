package authority

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"time"

	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
)

const (
	// namespace and name identify the secret that holds the roots. No workflow can have that namespace.
	namespace = "~skein"
	name      = "authority"
	// LifeDefault is the time for which a certificate is valid.
	LifeDefault = 24 * time.Hour
	// rootLife is the time for which a root is valid.
	rootLife = 10 * 365 * 24 * time.Hour
	// Skew is how far the clocks of two machines may differ.
	Skew = 5 * time.Minute
	// lookEach is the time between two readings of the roots. lookAgain is the least time between two readings
	// because of certificates of unknown roots.
	lookEach  = 10 * time.Second
	lookAgain = time.Second
	// readMax bounds a reading of the roots.
	readMax = 10 * time.Second
	// ServerName is the name under which a node shows its certificate of this authority.
	ServerName = "skein.internal"
)

// Errors of an Authority.
var (
	// ErrNone says that there is no authority yet.
	ErrNone = errors.New("the internal certificate authority does not exist yet; the first invitation creates it: skein worker invite NAME")
	// ErrChanging says that a change of roots has not ended.
	ErrChanging = errors.New("the root is already being changed")
)

// Vault keeps the roots.
type Vault interface {
	Value(ctx context.Context, namespace, name string) ([]byte, int64, error)
	Change(ctx context.Context, at sealed.Name, by string, change func(old []byte) ([]byte, error)) ([]byte, error)
}

// Config holds the settings of an authority.
type Config struct {
	Vault Vault
	Rows  Rows             // the rows of the certificates of nodes; nil if nodes have none
	Life  time.Duration    // life of a certificate; 0 means LifeDefault
	Now   func() time.Time // nil means time.Now
	Log   *slog.Logger
}

// Rows keeps the rows of the certificates of nodes. The certificate of a node is accepted only while its row
// is valid.
type Rows interface {
	EnrollNode(ctx context.Context, n store.Enrolling) (store.Token, error)
	TokenByHash(ctx context.Context, hash []byte) (store.Token, error)
}

// RowsOf returns the rows of the nodes of a cluster. The node of any other database calls no other one.
func RowsOf(st store.Store) Rows {
	if store.Can(st).Cluster == nil {
		return nil
	}
	return st
}

// Authority issues and verifies certificates.
type Authority struct {
	cfg Config

	mu       sync.Mutex // protects following fields
	is       state
	pool     *x509.CertPool // the roots that are valid
	version  int64          // the version of the secret
	err      error          // the error of the last read; it is used only if no roots are known
	tried    time.Time
	verified map[*x509.Certificate]verified
	own      *tls.Certificate // the certificate of this node
	node     string
	key      *ecdsa.PrivateKey // private key of own
	renew    time.Time         // when own is renewed
	pause    time.Time         // no certificate is made before this time, after a failure
	reading  sync.Mutex
	making   sync.Mutex // held while own is made
}

// state is the stored form.
type state struct {
	// Cluster is in the names of all certificates, so that a certificate of another database proves nothing.
	Cluster string `json:"cluster"`
	Roots   []root `json:"roots"` // the last root issues certificates
}

// root is a root with its key.
type root struct {
	Cert []byte `json:"cert"`
	Key  []byte `json:"key,omitempty"` // PKCS 8; empty for a root that no longer issues certificates
	// Cross is a certificate of the same key by the previous root, for nodes and workers that do not know this
	// root yet.
	Cross []byte    `json:"cross,omitempty"`
	Until time.Time `json:"until,omitzero"` // the end of the trust in a root that was replaced

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Root holds the fields of a root that are shown to people.
type Root struct {
	Fingerprint     string
	Made, Expires   time.Time
	Until           time.Time // the end of the change that replaced it; zero if it was not replaced
	Issues, Trusted bool
}

// New returns an authority, which reads nothing yet.
func New(cfg Config) *Authority {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Life == 0 {
		cfg.Life = LifeDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Authority{cfg: cfg}
}

// Life returns the time for which a certificate is valid.
func (a *Authority) Life() time.Duration { return a.cfg.Life }

// Fingerprint returns the text by which people compare a root.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Make makes the authority unless there is one.
func (a *Authority) Make(ctx context.Context, by string) error {
	_, err := a.cfg.Vault.Change(ctx, sealed.Name{Namespace: namespace, Name: name}, by, func(old []byte) ([]byte, error) {
		if old != nil {
			return old, nil
		}
		id := make([]byte, 8)
		rand.Read(id)
		is := state{Cluster: hex.EncodeToString(id)}
		first, err := newRoot(a.cfg.Now())
		if err != nil {
			return nil, err
		}
		is.Roots = []root{first}
		return json.Marshal(is)
	})
	if err != nil {
		return err
	}
	return a.Load(ctx)
}

// Replace ends all roots at once and makes a new one. It is for a root whose key was stolen. No certificate
// of the old roots is accepted any more, not even from a worker or node that does not know the new root yet.
// So every worker has to join again.
func (a *Authority) Replace(ctx context.Context, by string) error {
	_, err := a.cfg.Vault.Change(ctx, sealed.Name{Namespace: namespace, Name: name}, by, func(text []byte) ([]byte, error) {
		if text == nil {
			return nil, ErrNone
		}
		is, err := parse(text)
		if err != nil {
			return nil, err
		}
		next, err := newRoot(a.cfg.Now())
		if err != nil {
			return nil, err
		}
		is.Roots = []root{next}
		return json.Marshal(is)
	})
	if err != nil {
		return err
	}
	return a.Load(ctx)
}

// Rotate begins a change of roots: a new root issues from now on, and certificates of the old one are valid
// until they end. latest is the latest end of a certificate that any node has issued to a worker. Nodes renew
// their own certificates as soon as they have read the new root.
func (a *Authority) Rotate(ctx context.Context, by string, latest time.Time) error {
	now := a.cfg.Now()
	_, err := a.cfg.Vault.Change(ctx, sealed.Name{Namespace: namespace, Name: name}, by, func(text []byte) ([]byte, error) {
		if text == nil {
			return nil, ErrNone
		}
		is, err := parse(text)
		if err != nil {
			return nil, err
		}
		kept := is.Roots[:0:0]
		for _, r := range is.Roots {
			if !r.Until.IsZero() && r.Until.After(now) {
				return nil, fmt.Errorf("%w: certificates of the old root are valid until %s; rotate the root again after that", ErrChanging, r.Until.UTC().Format(time.DateTime))
			}
			if r.Until.IsZero() {
				kept = append(kept, r)
			}
		}
		next, err := newRoot(now)
		if err != nil {
			return nil, err
		}
		old := &kept[len(kept)-1]
		old.Until = now.Add(a.cfg.Life)
		if latest.After(old.Until) { // a node with another certificate_life may have issued this one
			old.Until = latest
		}
		old.Until = old.Until.Add(Skew)
		if next.Cross, err = cross(&next, old, now); err != nil {
			return nil, err
		}
		old.Key = nil // the old key signs no further certificates
		is.Roots = append(kept, next)
		return json.Marshal(is)
	})
	if err != nil {
		return err
	}
	return a.Load(ctx)
}

// Load reads the roots. It returns nil also if there are no roots. After an error, the roots that were read
// before stay valid. The end of ctx does not end a read, because its result is for all callers.
func (a *Authority) Load(ctx context.Context) error {
	a.reading.Lock()
	defer a.reading.Unlock()
	return a.load(ctx)
}

// reload does the same as Load for an unknown caller. It reads at most once in lookAgain, for all waiting
// callers together. It reports whether the roots were read since the caller last used them.
func (a *Authority) reload(ctx context.Context) bool {
	if !a.again() {
		return false
	}
	a.reading.Lock()
	defer a.reading.Unlock()
	if a.again() { // if this is false, another caller has read the roots meanwhile
		_ = a.load(ctx) // load logs the error, and keeps it if there are no roots
	}
	return true
}

// load does the work of Load. The caller must hold a.reading.
func (a *Authority) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readMax)
	defer cancel()
	text, version, err := a.cfg.Vault.Value(ctx, namespace, name)
	none := errors.Is(err, sealed.ErrNotFound)
	a.mu.Lock()
	known := a.version
	a.mu.Unlock()
	var is state
	switch {
	case none:
		err = nil
	case err == nil && version != known:
		is, err = parse(text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tried = a.cfg.Now()
	if err != nil {
		if a.err == nil {
			a.cfg.Log.Warn("the internal certificate authority cannot be read; this node continues with the roots that it knows", "code", "authority_unreadable", "roots", len(a.is.Roots), "err", err)
		}
		a.err = err
		return err
	}
	a.err = nil
	switch {
	case none:
		a.is, a.version, a.own, a.verified, a.pool = state{}, 0, nil, nil, nil
	case version != known:
		a.is, a.version, a.own, a.verified = is, version, nil, map[*x509.Certificate]verified{}
		fallthrough
	default:
		a.pool = a.is.trusted(a.cfg.Now())
	}
	return nil
}

// trusted returns the roots that are valid at an instant.
func (s *state) trusted(now time.Time) *x509.CertPool {
	pool := x509.NewCertPool()
	for i := range s.Roots {
		if r := &s.Roots[i]; r.trusted(now) {
			pool.AddCert(r.cert)
		}
	}
	return pool
}

func (r *root) trusted(now time.Time) bool { return r.Until.IsZero() || now.Before(r.Until) }

// Run reads the roots again until ctx ends, because other nodes change them.
func (a *Authority) Run(ctx context.Context) {
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for {
		_ = a.Load(ctx) // Load logs the error
		a.checkOwn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Roots returns the roots, the oldest first.
func (a *Authority) Roots() (all []Root) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.is.Roots {
		r := &a.is.Roots[i]
		all = append(all, Root{Fingerprint: Fingerprint(r.Cert), Made: r.cert.NotBefore.Add(Skew), Expires: r.cert.NotAfter, Until: r.Until,
			Issues: i == len(a.is.Roots)-1, Trusted: r.trusted(a.cfg.Now())})
	}
	return all
}

// Trusted returns the certificates of the roots that are valid now.
func (a *Authority) Trusted() (all [][]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.is.Roots {
		if r := &a.is.Roots[i]; r.trusted(a.cfg.Now()) {
			all = append(all, r.Cert)
		}
	}
	return all
}

// Pool returns the valid roots, for a listener, or nil if there are none. If atOnce is set, it reads the
// roots again before it returns nil.
func (a *Authority) Pool(ctx context.Context, atOnce bool) *x509.CertPool {
	a.mu.Lock()
	pool := a.pool
	a.mu.Unlock()
	if pool != nil || !atOnce || !a.reload(ctx) {
		return pool
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pool
}

func parse(text []byte) (is state, err error) {
	if err := json.Unmarshal(text, &is); err != nil || len(is.Roots) == 0 {
		return is, fmt.Errorf("the stored certificate authority is damaged: %w", errors.Join(err, errors.New("restore the database")))
	}
	for i := range is.Roots {
		r := &is.Roots[i]
		if r.cert, err = x509.ParseCertificate(r.Cert); err != nil {
			return is, fmt.Errorf("the stored certificate authority is damaged: %w", err)
		}
		if len(r.Key) == 0 {
			continue
		}
		key, err := x509.ParsePKCS8PrivateKey(r.Key)
		ec, ok := key.(*ecdsa.PrivateKey)
		if err != nil || !ok {
			return is, fmt.Errorf("the key of the stored certificate authority is damaged: %w", errors.Join(err, errors.New("restore the database")))
		}
		r.key = ec
	}
	if is.Roots[len(is.Roots)-1].key == nil {
		return is, errors.New("the stored certificate authority has no key: restore the database")
	}
	return is, nil
}

// newRoot makes a root.
func newRoot(now time.Time) (r root, err error) {
	if r.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return r, err
	}
	id := make([]byte, 4)
	rand.Read(id)
	t := rootTemplate(now, now.Add(rootLife), pkix.Name{CommonName: "Skein internal " + hex.EncodeToString(id)})
	if r.Cert, err = x509.CreateCertificate(rand.Reader, t, t, &r.key.PublicKey, r.key); err != nil {
		return r, err
	}
	if r.cert, err = x509.ParseCertificate(r.Cert); err != nil {
		return r, err
	}
	r.Key, err = x509.MarshalPKCS8PrivateKey(r.key)
	return r, err
}

// cross returns the certificate of a new root that the old one signs.
func cross(next, old *root, now time.Time) ([]byte, error) {
	t := rootTemplate(now, old.Until, next.cert.Subject)
	return x509.CreateCertificate(rand.Reader, t, old.cert, &next.key.PublicKey, old.key)
}

func rootTemplate(from, to time.Time, subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{SerialNumber: serial(), Subject: subject, NotBefore: from.Add(-Skew), NotAfter: to, IsCA: true, BasicConstraintsValid: true,
		MaxPathLen: 1, KeyUsage: x509.KeyUsageCertSign}
}

func serial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

// equal reports whether two certificates are the same.
func equal(a, b []byte) bool { return bytes.Equal(a, b) }
