package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/app"
	api "skein.dev/skein/sdk/api/v1"
)

func openCmd(c *cli) *cobra.Command {
	var onlyPrint bool
	cmd := &cobra.Command{
		Use: "open", Short: "Open the web page, signed in", Args: cobra.NoArgs,
		Long: `Opens the web page of the server, signed in with the rights of the command line. The address contains a code
that is valid once, within a minute. The code is after the #, a part of the address that browsers do
not send to servers.`,
		Example: "  skein open\n  skein open --print",
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			address, err := signedInAddress(ctx, c)
			if err != nil {
				return err
			}
			return one(c, map[string]string{"address": address}, address, func() error {
				fmt.Fprintln(c.out, address)
				if onlyPrint || !c.outTTY {
					return nil
				}
				if err := browse(ctx, address); err != nil {
					c.say("no browser opens here (%v): open the address above within a minute", err)
				}
				return nil
			})
		}),
	}
	cmd.Flags().BoolVar(&onlyPrint, "print", false, "print the address instead of opening it")
	notSettings(cmd.Flags(), "print")
	return cmd
}

// signedInAddress asks a running server for an address that opens the server's page and signs the browser in.
func signedInAddress(ctx context.Context, c *cli) (string, error) {
	s, err := running(ctx, c)
	if err != nil {
		return "", err
	}
	defer s.close()
	resp, err := s.Call(ctx, http.MethodPost, "/session:code", nil, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var code api.SignInCode
	if err := json.NewDecoder(io.LimitReader(resp.Body, apiBodyMax)).Decode(&code); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return app.SignInAddress(s.URL(), code.Code), nil
}

// running connects to a server. A page needs a server that still runs when the command has ended.
func running(ctx context.Context, c *cli) (*session, error) {
	if len(c.servers()) > 0 {
		return c.remote(ctx)
	}
	s, err := c.holder(ctx)
	if s == nil && err == nil {
		err = hint(&said{errUnreachable, "no server holds " + c.cfg.Data}, "start one: skein server")
	}
	return s, err
}

// browse makes the desktop open an address. Every user of the machine can see the arguments of a program. So
// the address is written into a file that only this user can read.
func browse(ctx context.Context, address string) error {
	name := map[string]string{"darwin": "open", "linux": "xdg-open"}[runtime.GOOS]
	dir, err := os.UserCacheDir()
	switch {
	case name == "":
		return errors.New("no program to open one is known on this system")
	case err != nil:
		return err
	}
	dir = filepath.Join(dir, "skein")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	page := filepath.Join(dir, "open.html")
	text := `<!doctype html><meta charset="utf-8"><title>Skein</title><meta http-equiv="refresh" content="0;url=` + html.EscapeString(address) + `">`
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		return err
	}
	return exec.CommandContext(ctx, name, page).Run()
}
