package notify

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"skein.dev/skein/internal/store"
)

// Call returns a function that sends the same message through a channel at each call.
func Call(s *Sender, row *store.AlertChannel) func(context.Context) error {
	msg := testMessage(row.Namespace, row.Name, "ann", "0199", time.Now())
	return func(ctx context.Context) error { return s.through(ctx, row, msg) }
}

// Send sends a notice through a channel, with secrets by name.
func Send(ctx context.Context, config string, secrets map[string]string, n *store.Notice) error {
	s := New(Options{Transport: func(context.Context, string) (http.RoundTripper, error) { return http.DefaultTransport, nil }, Log: slog.New(slog.DiscardHandler),
		Secret: func(_ context.Context, _, name string) ([]byte, error) { return []byte(secrets[name]), nil }})
	return s.send(ctx, []store.AlertChannel{{Namespace: n.Namespace, Name: n.Channel, Data: []byte(config)}}, []store.Notice{*n})
}
