package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/app"
	programs "skein.dev/skein/internal/stamp"
)

// pageNotes are the remarks of skein version about the state of the web page. There is none for a page that
// is up to date.
var pageNotes = map[string]string{
	"absent":  "The web page is not built; make web builds it.\n",
	"unknown": "The build of this program did not record the sources of its web page; make build does.\n",
	"stale":   "The web page was built from other sources than this program; make web builds it again.\n",
}

func (c *cli) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program",
		Example: "  skein version -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			page, err := app.PageState()
			if err != nil {
				return err
			}
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
				Page    string `json:"page"` // absent, current, stale or unknown
				// Plus is the version of skein-plus next to this program, or inside of it. PlusError says why it
				// cannot be used. Both are null if there is no skein-plus.
				Plus      *string `json:"plus"`
				PlusError *string `json:"plus_error"`
			}{Version: app.Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Page: page}
			plus, err := programs.PlusVersion(ctx)
			more := ""
			switch {
			case err == nil && programs.Inside:
				v.Plus, more = &plus, "It has the clients of skein-plus itself.\n"
			case err == nil:
				v.Plus, more = &plus, "skein-plus is next to it.\n"
			case !errors.Is(err, programs.ErrNoPlus):
				why := err.Error()
				v.PlusError, more = &why, why+".\n"
			}
			return one(c, v, v.Version, func() error {
				_, err := fmt.Fprintf(c.out, "skein %s (%s, %s/%s)\n%s%s", v.Version, v.Go, v.OS, v.Arch, pageNotes[page], more)
				return err
			})
		}),
	}
}
