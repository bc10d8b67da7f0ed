package joining

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/authority"
)

// WorkerTransport is a transport of a worker whose certificate is renewed regularly. Each renewal begins new
// connections, because a connection keeps the certificate with which it began.
type WorkerTransport struct {
	m    *Membership
	base *http.Transport
	now  atomic.Pointer[showing]
	log  *slog.Logger
}

// showing is a transport, and the time until which its certificate is valid.
type showing struct {
	*http.Transport
	name        string
	from, until time.Time
}

// NewWorkerTransport returns a transport that shows the certificate of m. base is used for the connections.
func NewWorkerTransport(m *Membership, base *http.Transport, log *slog.Logger) (*WorkerTransport, error) {
	r := &WorkerTransport{m: m, base: base, log: log}
	return r, r.use()
}

func (r *WorkerTransport) use() error {
	next, err := r.m.transport(r.base)
	if err != nil {
		return err
	}
	own, err := x509.ParseCertificate(r.m.Chain[0])
	if err != nil {
		return fmt.Errorf("read the certificate of the worker: %w", err)
	}
	if old := r.now.Swap(&showing{next, r.m.Name, own.NotBefore, r.m.Expires}); old != nil {
		old.CloseIdleConnections()
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (r *WorkerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	now := r.now.Load()
	// No node would accept the certificate, and each refusal counts against this address.
	if time.Now().After(now.until.Add(authority.Skew)) {
		return nil, fmt.Errorf("the certificate of this worker ended at %s; let it join again: skein worker invite %s", now.until.UTC().Format(time.DateTime), now.name)
	}
	return now.RoundTrip(req)
}

// Run renews the certificate until ctx ends. It begins at two thirds of the certificate's life, and tries
// again after a pause if no node renews it. known returns the nodes that the worker knows now. The nodes by
// which the worker joined are also tried.
func (r *WorkerTransport) Run(ctx context.Context, known func() []string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(authority.Due(r.now.Load().from, r.m.Expires, time.Now())):
		}
		next := *r.m
		err := next.ask(ctx, call{r.now.Load().Transport, serversOf(known(), next.Servers), RenewPath, ""})
		if err == nil {
			err = next.save()
		}
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("the certificate of this worker was not renewed; the worker tries again", "code", "certificate_not_renewed", "until", r.m.Expires, "err", err)
			}
			continue
		}
		*r.m = next
		if err := r.use(); err != nil {
			r.log.Error("the renewed certificate of this worker cannot be used", "code", "certificate_unusable", "err", err)
			continue
		}
		r.log.Info("the certificate of this worker was renewed", "code", "certificate_renewed", "until", next.Expires)
	}
}

// serversOf returns all servers in the lists, without duplicates.
func serversOf(lists ...[]string) (all []string) {
	for _, s := range slices.Concat(lists...) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
