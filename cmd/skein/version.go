package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/app"
)

func (c *cli) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program",
		Example: "  skein version -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(func(context.Context, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{app.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return one(c, v, v.Version, func() error {
				_, err := fmt.Fprintf(c.out, "skein %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
				return err
			})
		}),
	}
}
