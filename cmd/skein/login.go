package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/localtoken"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
	"skein.dev/skein/sdk/shared/local"
)

// loginFlags select the credential of a sign-in. Without a flag, the credential is a name and a password.
type loginFlags struct {
	user        string
	stdin       bool
	token, code bool
}

func loginCmd(c *cli) *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use: "login [URL]", Short: "Sign in to a server", Args: cobra.MaximumNArgs(1),
		Long: `Signs in to the server at URL (default: that of --server, else the server of the data folder). The command asks
for your name and password. Every command then calls that server with the session. The session ends when you log
out, after 8 hours without use, and after 24 hours. If you give a command a token (--token-file,
SKEIN_API_TOKEN), it uses the token instead.

--token signs in with a token of the kind api. --code signs in with a one-time code: run skein open --print
where you may call the server already, and paste the code, or the whole address, within a minute. The command
asks for the token or code on the terminal without showing it, or reads the first line of standard input.

The session is in a file that only you can read, below $XDG_STATE_HOME/skein/sessions (~/.local/state/skein/sessions).`,
		Example: "  skein login https://skein.example:8443\n  skein login --server https://skein.example:8443 --user ann --password-stdin < file\n  skein login https://skein.example:8443 --code",
		RunE: c.do(func(ctx context.Context, args []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			return login(ctx, c, args, f)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.user, "user", "", "your name (default: the command asks for it)")
	fl.BoolVar(&f.stdin, "password-stdin", false, "read the password from the first line of standard input")
	fl.BoolVar(&f.token, "token", false, "sign in with a token")
	fl.BoolVar(&f.code, "code", false, "sign in with a one-time code")
	cmd.MarkFlagsMutuallyExclusive("token", "code", "user")
	cmd.MarkFlagsMutuallyExclusive("token", "code", "password-stdin")
	return cmd
}

func logoutCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "logout [URL]", Short: "End the session with a server", Args: cobra.MaximumNArgs(1),
		Long:    "Ends the session that skein login has opened, and deletes its file. URL is as for skein login.",
		Example: "  skein logout https://skein.example:8443",
		RunE: c.do(func(ctx context.Context, args []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			return logout(ctx, c, args)
		}),
	}
}

// loginServers returns the addresses for which one session is valid. The nodes of a cluster share their
// sessions.
func loginServers(ctx context.Context, c *cli, args []string) ([]string, error) {
	urls := c.servers()
	if len(args) > 0 {
		urls = args
	}
	if len(urls) == 0 {
		h, err := datadir.Find(ctx, c.cfg.Data)
		if err != nil {
			return nil, err
		}
		if h == nil || h.Address == "" {
			return nil, hint(&said{errNotFound, "no server holds " + c.cfg.Data}, "name one: skein login https://HOST:PORT")
		}
		urls = []string{h.Address}
	}
	out := []string{}
	for _, at := range urls {
		k, err := skein.New(at)
		if err != nil {
			return nil, usage("%v", err)
		}
		out = append(out, k.URL()) // a complete address, in the form of servers()
	}
	return out, nil
}

// bare makes a client whose only credential is a session. If cookie is nil, the client has no credential.
func bare(c *cli, server string, cookie *http.Cookie) (*skein.Client, error) {
	rt, err := app.Transport(c.cfg)
	if err != nil {
		return nil, err
	}
	return skein.New(server, skein.WithTransport(rt), skein.WithSession(cookie))
}

func login(ctx context.Context, c *cli, args []string, f loginFlags) error {
	servers, err := loginServers(ctx, c, args)
	if err != nil {
		return err
	}
	for _, at := range servers {
		if err := c.private(at, true); err != nil {
			return err
		}
	}
	body, err := credentialOf(ctx, c, servers[0], f)
	if err != nil {
		return err
	}
	former := sessionsAt(servers)
	is, err := signIn(ctx, c, servers, body)
	if err != nil {
		return err
	}
	fresh := make([]local.Session, len(servers))
	for i, at := range servers {
		fresh[i] = is
		fresh[i].Address = at
	}
	for i := range fresh {
		if err := local.SaveSession(fresh[i]); err != nil { // no command could use this session, so end the new ones
			return errors.Join(fmt.Errorf("keep the session: %w", err), leave(ctx, c, fresh))
		}
	}
	if _, err := endSessions(ctx, c, former); err != nil {
		c.say("your former session is forgotten here, but may count on the server until it ends by itself: %v", err)
	}
	return one(c, map[string]any{"server": servers[0], "user": is.User, "ends_at": is.Ends}, is.User, func() error {
		c.say("you are %s at %s, until %s at the latest", is.User, strings.Join(servers, ", "), is.Ends.Local().Format("2006-01-02 15:04"))
		return nil
	})
}

// credentialOf reads the credential of a sign-in.
func credentialOf(ctx context.Context, c *cli, server string, f loginFlags) (b api.SignIn, err error) {
	ask := func(question string) (string, error) {
		if !f.stdin && term.IsTerminal(int(c.in.Fd())) {
			return askHidden(ctx, c, question)
		}
		return secretLine(bounded(c.in))
	}
	switch {
	case f.token:
		b.Token, err = ask("Token: ")
	case f.code:
		b.Code, err = ask("Code: ")
		if _, code, whole := strings.Cut(b.Code, "#code="); whole { // b.Code is a whole address, as skein open prints it
			b.Code = code
		}
	default:
		if b.User = f.user; b.User == "" {
			if c.noInput || !term.IsTerminal(int(c.in.Fd())) {
				return b, usage("there is no terminal to ask for a name and a password: give --user NAME and --password-stdin, or --token or --code")
			}
			if b.User, err = askLine(ctx, c, "Name at "+server+": "); err != nil {
				return b, err
			}
		}
		if !f.stdin && (c.noInput || !term.IsTerminal(int(c.in.Fd()))) {
			return b, usage("there is no terminal to ask for the password: give it by --password-stdin")
		}
		b.Password, err = ask("Password: ")
	}
	return b, err
}

// secretLine reads one line of standard input.
func secretLine(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if line = strings.TrimSpace(line); line == "" || len(line) > passwordBytesMax {
		return "", usage("standard input: give a line of 1 to %d bytes", passwordBytesMax)
	}
	return line, nil
}

// askLine reads a line from the terminal. The terminal shows what the user types.
func askLine(ctx context.Context, c *cli, question string) (string, error) {
	fmt.Fprint(c.err, question)
	got := make(chan string, 1)
	go func() {
		line, _ := bounded(c.in).ReadString('\n')
		got <- strings.TrimSpace(line)
	}()
	select {
	case line := <-got:
		if line == "" {
			return "", usage("no name was given")
		}
		return line, nil
	case <-ctx.Done():
		return "", &said{errInterrupted, "nothing was done"}
	}
}

// signIn opens a session at the first server that answers.
func signIn(ctx context.Context, c *cli, servers []string, b api.SignIn) (is local.Session, err error) {
	body, err := json.Marshal(b)
	if err != nil {
		return is, err
	}
	var errs []error
	for _, at := range servers {
		k, err := bare(c, at, nil)
		if err != nil {
			return is, err
		}
		resp, err := k.Call(ctx, http.MethodPost, "/session", body, http.Header{"User-Agent": {"skein " + app.Version()}})
		k.Close()
		if errors.Is(err, skein.ErrUnreachable) {
			errs = append(errs, err)
			continue
		}
		if err != nil {
			return is, err
		}
		defer resp.Body.Close()
		var s api.Session
		if err := json.NewDecoder(io.LimitReader(resp.Body, apiBodyMax)).Decode(&s); err != nil {
			return is, fmt.Errorf("read the answer: %w", err)
		}
		for _, cookie := range resp.Cookies() { // a proxy may set other cookies
			if cookie.MaxAge > 0 && (cookie.Name == "__Host-skein" || cookie.Name == "skein") {
				return local.Session{Cookie: cookie.Name, Secret: cookie.Value, User: s.User, Ends: s.EndsAt.Time}, nil
			}
		}
		return is, fmt.Errorf("%s gave no session", at)
	}
	return is, unreached(errors.Join(errs...))
}

func logout(ctx context.Context, c *cli, args []string) error {
	servers, err := loginServers(ctx, c, args)
	if err != nil {
		return err
	}
	all := sessionsAt(servers)
	if len(all) == 0 {
		return hint(&said{errNotFound, "you have no session at " + strings.Join(servers, ", ")}, "skein login "+servers[0])
	}
	if err := leave(ctx, c, all); err != nil {
		return err
	}
	c.say("the session of %s at %s has ended", all[0].User, strings.Join(servers, ", "))
	return nil
}

// sessionsAt returns the sessions that commands use for servers.
func sessionsAt(servers []string) (all []local.Session) {
	for _, at := range servers {
		if is, ok := local.SessionAt(at); ok {
			is.Address = at
			all = append(all, is)
		}
	}
	return all
}

// leave ends the sessions on their servers. It deletes the local records of the sessions that have ended.
func leave(ctx context.Context, c *cli, all []local.Session) error {
	ended, err := endSessions(ctx, c, all)
	for i := range all {
		if !ended[all[i].Secret] {
			continue
		}
		if failed := local.ForgetSession(all[i].Address); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// endSessions ends sessions on their servers. It returns the secrets of the sessions that are no longer
// valid. The nodes of a cluster share their sessions, so one answer is enough. err is the first error about a
// session that has not ended.
func endSessions(ctx context.Context, c *cli, all []local.Session) (ended map[string]bool, err error) {
	ended, failed := map[string]bool{}, map[string]error{}
	for i := range all {
		is := &all[i]
		if ended[is.Secret] {
			continue
		}
		if err := endSession(ctx, c, is); err == nil {
			ended[is.Secret] = true
		} else if failed[is.Secret] == nil {
			failed[is.Secret] = err
		}
	}
	for i := range all {
		if secret := all[i].Secret; !ended[secret] {
			return ended, failed[secret]
		}
	}
	return ended, nil
}

// endSession ends a session on its server. It returns no error if the session had already ended.
func endSession(ctx context.Context, c *cli, is *local.Session) error {
	k, err := bare(c, is.Address, is.Header())
	if err != nil {
		return err
	}
	defer k.Close()
	resp, err := k.Call(ctx, http.MethodDelete, "/session", nil, nil)
	if err == nil {
		return resp.Body.Close()
	}
	var e *skein.Error
	if errors.As(err, &e) && (e.Problem.Status == http.StatusUnauthorized || e.Problem.Status == http.StatusNotFound) {
		return nil
	}
	return hint(fmt.Errorf("the session is still valid on the server: %w", err), "try again: skein logout "+is.Address)
}

// shown says which credential a command uses for the server of a session.
func (s *session) shown(c *cli) string {
	if s.node != nil || s.observing {
		return "your right to the data folder"
	}
	server := s.URL()
	is, ok := local.SessionAt(server)
	switch {
	case c.cfg.APIToken != "" && c.cfg.TokenFile != "":
		return "the token in " + c.cfg.TokenFile
	case c.cfg.APIToken != "":
		return "the token of SKEIN_API_TOKEN"
	case ok:
		return "the session of " + is.User + " (skein login), until " + is.Ends.Local().Format(time.DateTime) + " at the latest"
	}
	if _, err := localtoken.Of(c.cfg.Data, server); err == nil {
		return "the token of your node on this machine"
	}
	return "nothing"
}
