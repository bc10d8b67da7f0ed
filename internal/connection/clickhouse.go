package connection

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// errorMax bounds the text of an error that is read of a server.
const errorMax = 8 << 10

// ClickHouseError is the answer of a server that refuses a statement.
type ClickHouseError struct {
	Code int // error code of ClickHouse; 0 if unknown
	HTTP int // status
	Text string
}

func (e *ClickHouseError) Error() string { return e.Text }

// Client returns a client for the server over a transport. The transport gets the authorities of the
// connection.
func (c *ClickHouse) Client(t http.RoundTripper) (*http.Client, error) {
	if c.CA != "" {
		of, ok := t.(*http.Transport)
		if !ok {
			return nil, errors.New("the connection has a ca, which cannot be used here")
		}
		of.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		of.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(c.CA))
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// Do sends a statement. settings are further parameters of the request. The caller closes the body of
// the answer.
func (c *ClickHouse) Do(ctx context.Context, client *http.Client, password, text string, settings url.Values) (*http.Response, error) {
	q := url.Values{"default_format": {"TabSeparatedWithNamesAndTypes"}}
	if c.Database != "" {
		q.Set("database", c.Database)
	}
	for name, all := range settings {
		q[name] = all
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/?"+q.Encode(), strings.NewReader(text))
	if err != nil {
		return nil, errors.New("the address cannot be used")
	}
	if c.User != "" {
		req.Header.Set("X-ClickHouse-User", c.User)
		req.Header.Set("X-ClickHouse-Key", password)
	}
	resp, err := client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, errorMax))
	_ = resp.Body.Close()
	said := strings.TrimSpace(string(raw))
	failed := &ClickHouseError{HTTP: resp.StatusCode, Text: fmt.Sprintf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
	if said != "" {
		failed.Text = readable(noSecrets, said) // not shortened, because the caller masks it first
	}
	failed.Code = ClickHouseCode(said)
	return nil, failed
}

// ClickHouseCode returns the number in the text of an exception, or 0 if it has none.
func ClickHouseCode(said string) int {
	rest, ok := strings.CutPrefix(said, "Code: ")
	if !ok {
		return 0
	}
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' && n < 6 {
		n++
	}
	code, _ := strconv.Atoi(rest[:n])
	return code
}

func (c *ClickHouse) use(ctx context.Context, m *Means) (string, error) {
	password, err := m.text(ctx, c.Password)
	if err != nil {
		return "", err
	}
	t, err := m.Transport()
	if err != nil {
		return "", err
	}
	client, err := c.Client(t)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(ctx, client, password, "SELECT version(), currentDatabase()", url.Values{
		"max_execution_time": {strconv.Itoa(int(testMax / time.Second))}, "default_format": {"TabSeparated"}})
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, errorMax))
	if err != nil {
		return "", err
	}
	version, database, ok := strings.Cut(strings.TrimSpace(string(raw)), "\t")
	if !ok {
		return "", errors.New("the answer is not that of ClickHouse: is the port that of its HTTP interface?")
	}
	return fmt.Sprintf("ClickHouse %s, database %s", version, database), nil
}
