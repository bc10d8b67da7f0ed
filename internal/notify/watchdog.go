package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Watchdog calls an address as long as the scheduler works. The service at the address notifies people when
// the calls stop, because the nodes cannot notify people if all nodes are down.
type Watchdog struct {
	File      string // the file with the address; it is read at each call
	Transport func() (http.RoundTripper, error)
	// Alive returns an error with the reason why the scheduler does not work. It returns NotMine if another
	// node makes the calls.
	Alive   func(context.Context) error
	NotMine error
	Log     *slog.Logger
}

const (
	// watchdogEvery is the time between two calls.
	watchdogEvery = time.Minute
	// watchdogFileMax bounds the bytes of the file with the address.
	watchdogFileMax = 8 << 10
)

// Run calls the address until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	for last := ""; ; {
		said := ""
		switch err := w.Alive(ctx); {
		case w.NotMine != nil && errors.Is(err, w.NotMine):
		case err != nil:
			said = "the scheduler does not work: " + err.Error()
		default:
			if err := w.call(ctx); err != nil {
				said = err.Error()
			}
		}
		if said != last && said != "" && ctx.Err() == nil {
			w.Log.Warn("the watchdog was not called", "code", "watchdog_silent", "err", said)
		}
		last = said
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchdogEvery):
		}
	}
}

// call calls the address once. Its errors do not contain the address.
func (w *Watchdog) call(ctx context.Context) error {
	address, err := w.address()
	if err != nil {
		return err
	}
	transport, err := w.Transport()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("%s holds no http or https address", w.File)
	}
	req.Header.Set("User-Agent", "Skein")
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if named := (*url.Error)(nil); errors.As(err, &named) {
		err = named.Err
	}
	if err != nil {
		return errors.New(strings.ReplaceAll(strings.ReplaceAll(err.Error(), address, "the address"), req.URL.Hostname(), "its host"))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerMax))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the answer was %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}

func (w *Watchdog) address() (string, error) {
	f, err := os.Open(w.File)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, watchdogFileMax))
	if err != nil {
		return "", err
	}
	address := strings.TrimSpace(string(data))
	if checkURL(address) != nil {
		return "", fmt.Errorf("%s holds no http or https address", w.File)
	}
	return address, nil
}
