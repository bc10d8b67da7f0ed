package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/atomicfile"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) taskArtifactsCmd() *cobra.Command {
	var attempt int
	cmd := &cobra.Command{
		Use: "artifacts RUN/TASK", Short: "List the artifacts of a task",
		Long: "Lists the artifacts of a task, from its newest attempt that succeeded.\n" + runRefHelp,
		Example: "  skein task artifacts nightly-orders@latest/validate\n" +
			"  skein task artifacts get nightly-orders@latest/validate report.html --out report.html",
		Args: cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			run, task, err := findTask(ctx, s, args[0])
			if err != nil {
				return err
			}
			all, err := s.Artifacts(ctx, run, task, attempt)
			if err != nil {
				return err
			}
			return show(c, all, func(a api.Artifact) string { return a.Name }, []column[api.Artifact]{
				{head: "NAME", get: func(a api.Artifact) string { return a.Name }},
				{head: "BYTES", get: func(a api.Artifact) string { return fmt.Sprint(a.Size) }},
				{head: "SHA256", get: func(a api.Artifact) string { return a.SHA256 }},
				{head: "ATTEMPT", get: func(a api.Artifact) string { return fmt.Sprint(a.Attempt) }},
			})
		})),
	}
	cmd.Flags().IntVar(&attempt, "attempt", 0, "number of the attempt (default: the newest that succeeded)")
	cmd.AddCommand(c.taskArtifactsGetCmd())
	return cmd
}

func (c *cli) taskArtifactsGetCmd() *cobra.Command {
	var attempt int
	var out string
	cmd := &cobra.Command{
		Use: "get RUN/TASK NAME", Short: "Read an artifact of a task", Long: "Reads an artifact of a task, and checks its SHA-256.\n" + runRefHelp,
		Example: "  skein task artifacts get nightly-orders@latest/validate report.html --out report.html",
		Args:    cobra.ExactArgs(2),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			run, task, err := findTask(ctx, s, args[0])
			if err != nil {
				return err
			}
			a, err := s.Artifact(ctx, run, task, args[1], skein.ArtifactQuery{Attempt: attempt})
			if err != nil {
				return err
			}
			defer a.Close()
			if out == "" {
				return copyChecked(c.out, a, args[1])
			}
			return saveArtifact(out, a, args[1])
		})),
	}
	cmd.Flags().IntVar(&attempt, "attempt", 0, "number of the attempt (default: the newest that succeeded)")
	cmd.Flags().StringVar(&out, "out", "", "file for the artifact, written when it is complete (default: standard output)")
	return cmd
}

// copyChecked copies an artifact and compares the received bytes with its SHA-256.
func copyChecked(to io.Writer, a *skein.Artifact, name string) error {
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, sum), a); err != nil {
		return fmt.Errorf("artifact %s: %w", name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != a.SHA256 {
		return fmt.Errorf("artifact %s is damaged: its SHA-256 was %s and is %s", name, a.SHA256, got)
	}
	return nil
}

// saveArtifact writes a file only after the artifact was received completely.
func saveArtifact(path string, a *skein.Artifact, name string) error {
	file, err := atomicfile.Begin(path, 0o600)
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := copyChecked(file, a, name); err != nil {
		return err
	}
	return file.Put()
}
