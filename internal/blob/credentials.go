package blob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// errNoCredentials means that no source has credentials.
var errNoCredentials = errors.New("there are no credentials")

const (
	// rereadEvery is the time after which credentials are read again, so that a change is noticed.
	rereadEvery = 5 * time.Minute
	// endsSoon is the remaining validity at which credentials are replaced.
	endsSoon = 5 * time.Minute
	// sourceMax bounds the time for one source.
	sourceMax = 10 * time.Second
	// profileMax bounds the bytes of the file of profiles.
	profileMax = 1 << 20
)

// keys are credentials.
type keys struct {
	id, secret, session string
	ends                time.Time // zero means never
}

func (k *keys) complete() bool { return k.id != "" && k.secret != "" }

// chain reads the sources of credentials in their order. The first source with credentials is used.
type chain struct {
	sources []source
	asking  chan struct{} // cap 1: held while the sources are read

	mu    sync.Mutex // protects following fields
	from  string     // the source of the credentials in is; "" if there is none yet
	is    keys
	until time.Time // the time at which the credentials must be read again
	tried string    // the reasons why the sources had none, for people
}

// source is one source of credentials.
type source struct {
	name string
	get  func(ctx context.Context) (keys, error)
}

// errNone means that a source is not used here, so it has no credentials.
var errNone = errors.New("there are none")

// newChain returns the sources of credentials for a location: the secret that the location names, and
// otherwise the environment of the process.
func newChain(l *Location, secret func(ctx context.Context, namespace, name string) ([]byte, error)) (*chain, error) {
	c := &chain{asking: make(chan struct{}, 1)}
	if l.Secret == "" {
		cloud := newCloud(l.Region)
		c.sources = []source{
			{"the environment (AWS_ACCESS_KEY_ID)", ofEnvironment},
			{"the profile " + profile(), ofProfile},
			{"the service account (AWS_WEB_IDENTITY_TOKEN_FILE)", cloud.ofIdentity},
			{"the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)", cloud.ofContainer},
			{"the machine's role", cloud.ofMachine},
		}
		return c, nil
	}
	if secret == nil {
		return nil, fmt.Errorf("the credentials are in the secret %s, and this process has no secrets", l.Secret)
	}
	c.sources = []source{{"the secret " + l.Secret, func(ctx context.Context) (keys, error) {
		namespace, name, _ := strings.Cut(l.Secret, "/")
		text, err := secret(ctx, namespace, name)
		if err != nil {
			return keys{}, err
		}
		return parseKeys(string(text))
	}}}
	return c, nil
}

// parseKeys reads ID:KEY or ID:KEY:SESSION.
func parseKeys(text string) (k keys, err error) {
	parts := strings.SplitN(strings.TrimSpace(text), ":", 3)
	if len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return k, errors.New("its value is not ACCESS_KEY_ID:SECRET_ACCESS_KEY")
	}
	if k.id, k.secret = parts[0], parts[1]; len(parts) == 3 {
		k.session = parts[2]
	}
	return k, nil
}

func ofEnvironment(context.Context) (keys, error) {
	k := keys{id: os.Getenv("AWS_ACCESS_KEY_ID"), secret: os.Getenv("AWS_SECRET_ACCESS_KEY"), session: os.Getenv("AWS_SESSION_TOKEN")}
	if !k.complete() {
		return k, errNone
	}
	return k, nil
}

func profile() string {
	if name := os.Getenv("AWS_PROFILE"); name != "" {
		return name
	}
	return "default"
}

// ofProfile reads the file of profiles that the tools of Amazon use.
func ofProfile(context.Context) (k keys, err error) {
	path := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return k, errNone
		}
		path = filepath.Join(home, ".aws", "credentials")
	}
	info, err := os.Stat(path)
	if err != nil {
		return k, err
	}
	if info.Size() > profileMax {
		return k, fmt.Errorf("%s has more than %d bytes", path, profileMax)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return k, err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSpace(strings.TrimSuffix(name, "]"))
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section != profile() || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
		case "aws_access_key_id":
			k.id = value
		case "aws_secret_access_key":
			k.secret = value
		case "aws_session_token":
			k.session = value
		}
	}
	if !k.complete() {
		return k, fmt.Errorf("%s has no keys for it", path)
	}
	return k, nil
}

// keys returns the present credentials. If no source answers any more, the last credentials are used until
// they expire.
func (c *chain) keys(ctx context.Context) (*keys, error) {
	if k := c.fresh(); k != nil {
		return k, nil
	}
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if k := c.fresh(); k != nil { // another call has read them
		return k, nil
	}
	var tried []string
	for _, s := range c.sources {
		within, cancel := context.WithTimeout(ctx, sourceMax)
		k, err := s.get(within)
		cancel()
		if err == nil {
			return c.take(s.name, k), nil
		}
		tried = append(tried, s.name+": "+err.Error())
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tried = strings.Join(tried, "; "); c.from != "" && (c.is.ends.IsZero() || time.Now().Before(c.is.ends)) {
		c.until = time.Now().Add(rereadEvery / 10)
		k := c.is
		return &k, nil
	}
	return nil, fmt.Errorf("%w; tried: %s", errNoCredentials, c.tried)
}

// fresh returns the present credentials. It returns nil if they must be read again.
func (c *chain) fresh() *keys {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == "" || time.Now().After(c.until) {
		return nil
	}
	k := c.is
	return &k
}

func (c *chain) take(from string, k keys) *keys {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from, c.is, c.until = from, k, time.Now().Add(rereadEvery)
	if early := k.ends.Add(-endsSoon); !k.ends.IsZero() && early.Before(c.until) {
		c.until = early
	}
	return &k
}

// origin returns the name of the source of the present credentials.
func (c *chain) origin() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.from
}
