package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// apiBodyMax bounds the request body that this command reads, in bytes. Servers accept less on most routes.
const apiBodyMax = 64 << 20

func (c *cli) apiCmd() *cobra.Command {
	var data string
	var headers []string
	cmd := &cobra.Command{
		Use: "api METHOD PATH", Short: "Send a request to the REST API",
		Long: `Sends a request to the REST API and prints the answer. It uses the same server and token as every other command.
Unlike curl, it finds the address and the token of a node that your user runs on this machine. PATH is below
/api/v1. A stream is printed as it arrives. If the server refuses the request, the command shows the reason and
fails.`,
		Example: `  skein api GET '/runs?limit=5'
  skein api POST /runs --data '{"workflow": "hello"}'
  skein api POST /runs/RUN:stop
  skein api PUT /workflows/default/NAME --data @workflow.yaml -H 'Content-Type: application/yaml'
  skein api GET /events -H 'Accept: text/event-stream'`,
		Args: cobra.ExactArgs(2),
		RunE: c.do(func(ctx context.Context, args []string) error {
			r := apiRequest{method: strings.ToUpper(args[0]), path: args[1]}
			var err error
			if r.header, err = headersOf(headers); err != nil {
				return err
			}
			if c.flags.Changed("data") {
				if r.body, err = bodyOf(c.in, data); err != nil {
					return err
				}
				if r.header.Get("Content-Type") == "" && !json.Valid(r.body) {
					return hint(usage("--data: the body is not JSON"), "give the type of the body, such as -H 'Content-Type: application/yaml'")
				}
			}
			send := func(ctx context.Context, s *session, _ []string) error { return r.send(ctx, c, s) }
			switch r.method {
			case http.MethodGet, http.MethodHead:
				return c.reading(send)(ctx, args)
			case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
				return c.writing(send)(ctx, args)
			}
			return usage("method %q: use GET, POST, PUT, PATCH or DELETE", args[0])
		}),
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "", "body of the request: a text, @FILE, or @- for standard input; JSON, unless -H sets another Content-Type")
	f.StringArrayVarP(&headers, "header", "H", nil, "header of the request, as 'NAME: VALUE'; may be repeated")
	notSettings(f, "data", "header")
	return cmd
}

func headersOf(texts []string) (http.Header, error) {
	header := http.Header{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usage("--header %q: use 'NAME: VALUE'", text)
		}
		if strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Cookie") {
			return nil, hint(usage("--header %s: the command line sends its own token", name), "give another token: --token-file FILE")
		}
		header.Add(name, strings.TrimSpace(value))
	}
	return header, nil
}

// bodyOf reads the value of --data.
func bodyOf(in *os.File, data string) (json.RawMessage, error) {
	text := []byte(data)
	if name, isFile := strings.CutPrefix(data, "@"); isFile {
		from := in
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return nil, usage("--data: %v", err)
			}
			defer file.Close()
			from = file
		}
		var err error
		if text, err = io.ReadAll(io.LimitReader(from, apiBodyMax+1)); err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
	}
	if len(text) > apiBodyMax {
		return nil, usage("--data: the body is larger than %d MiB", apiBodyMax>>20)
	}
	return text, nil
}

// apiRequest is one request to the REST API.
type apiRequest struct {
	method, path string
	body         json.RawMessage // nil if there is none
	header       http.Header
}

// send sends the request and prints the answer as it arrives.
func (r *apiRequest) send(ctx context.Context, c *cli, s *session) error {
	resp, err := s.Call(ctx, r.method, r.path, r.body, r.header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(c.out, resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if n > 0 && c.outTTY {
		fmt.Fprintln(c.out)
	}
	return nil
}
