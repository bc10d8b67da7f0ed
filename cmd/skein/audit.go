package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func auditCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who changed what, and check that the audit log was not altered",
		Example: "  skein audit list --since 24h\n  skein audit verify",
	}
	needsVerb(cmd)
	cmd.AddCommand(auditListCmd(c), auditVerifyCmd(c), auditExportCmd(c))
	return cmd
}

func auditListCmd(c *cli) *cobra.Command {
	var q skein.AuditQuery
	var since string
	limit := 100
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List changes, starts of runs and refused calls, the newest first", Args: cobra.NoArgs,
		Long: `Lists who changed what, who started which run, and which calls were refused. You need the verb audit.read, and
see the rows of the namespaces in which you have it. Refused calls of one caller and kind within a minute are
one row.`,
		Example: "  skein audit list --principal ada\n  skein audit list --verb secret.write --since 7d -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			if since != "" {
				at, err := auditSince(since)
				if err != nil {
					return err
				}
				q.Since = at
			}
			var all []api.AuditRow
			for len(all) < limit {
				q.Limit = min(limit-len(all), 1000)
				page, err := skein.NewAudit(s.Client).List(ctx, q)
				if err != nil {
					return err
				}
				if all = append(all, page.Items...); page.Next == nil {
					break
				}
				q.Cursor = *page.Next
			}
			return show(c, all, func(r api.AuditRow) string { return strconv.FormatInt(r.ID, 10) }, []column[api.AuditRow]{
				{head: "WHEN", get: func(r api.AuditRow) string { return c.when(&r.At) }},
				{head: "WHO", get: func(r api.AuditRow) string { return orDash(r.Principal) }},
				{head: "FROM", get: func(r api.AuditRow) string { return orDash(r.Address) }},
				{head: "OUTCOME", get: auditOutcome},
				{head: "ACTION", get: func(r api.AuditRow) string { return r.Action }},
				{head: "OBJECT", get: func(r api.AuditRow) string { return orDash(r.Object) }},
				{head: "DETAIL", get: func(r api.AuditRow) string { return orDash(r.Detail) }},
			})
		})),
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only rows since then: an age such as 24h, or an RFC 3339 instant")
	f.StringVar(&q.Principal, "principal", "", "only calls on behalf of this user")
	f.StringVar(&q.Verb, "verb", "", "only calls that need this verb, such as run.control")
	f.StringVarP(&q.Namespace, "namespace", "n", "", "only rows of this namespace")
	f.IntVar(&limit, "limit", limit, "largest number of rows")
	notSettings(f, "since", "principal", "verb", "namespace", "limit")
	return cmd
}

func auditOutcome(r api.AuditRow) string {
	if r.Count > 1 {
		return r.Outcome + " ×" + strconv.FormatInt(r.Count, 10)
	}
	return r.Outcome
}

// auditSince reads an age or an instant.
func auditSince(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := workflow.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, usage("--since %s: use an age such as 24h or 7d, or an instant such as 2026-03-01T08:00:00Z", text)
	}
	return time.Now().Add(-time.Duration(d)), nil
}

func auditExportCmd(c *cli) *cobra.Command {
	format := "skein"
	cmd := &cobra.Command{
		Use: "export", Short: "Export the whole audit log with its hashes, as lines of JSON", Args: cobra.NoArgs,
		Long: `Writes the signed state of the audit log and all of its rows, the oldest first. skein audit verify --from FILE
checks that file without a server. Starts of runs are not in the file, because the row of the run records them.

With --format ocsf, each row is an event of the Open Cybersecurity Schema Framework, for systems that collect such
events. Such a file cannot be verified.`,
		Example: "  skein audit export > audit.jsonl\n  skein audit export --format ocsf > events.jsonl",
		RunE: c.do(func(ctx context.Context, args []string) error {
			if format != "skein" && format != "ocsf" {
				return usage("--format %s: use skein or ocsf", format)
			}
			return c.reading(func(ctx context.Context, s *session, _ []string) error {
				body, err := skein.NewAudit(s.Client).Export(ctx)
				if err != nil {
					return err
				}
				defer body.Close()
				if format == "ocsf" {
					err = audit.WriteOCSF(body, c.out)
				} else {
					_, err = io.Copy(c.out, body)
				}
				if err != nil {
					return fmt.Errorf("the export is not complete: %w", err)
				}
				return nil
			})(ctx, args)
		}),
	}
	cmd.Flags().StringVar(&format, "format", format, "form of the rows: skein, or ocsf")
	notSettings(cmd.Flags(), "format")
	return cmd
}

// auditFiles are the files that skein audit verify compares.
type auditFiles struct {
	from              string
	checkpoints, keys []string
}

func auditVerifyCmd(c *cli) *cobra.Command {
	var f auditFiles
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that no row of the audit log was changed, removed, inserted or cut off", Args: cobra.NoArgs,
		Long: `Compares the rows of the audit log with the checkpoints that the nodes have signed. The command does the
computation itself, so you need not trust the server or the database, only the files of checkpoints and keys.
Without flags, it reads the files in the data folder. In a cluster, give the files of several nodes.

It names the rows that were changed, removed, inserted or cut off, and the checkpoints between which this
happened. It lists separately the rows that were lost because the database went back to an earlier state, as
after skein db restore or a failover. Check that you know of these events.
Exit code: 0 no fault was found, 1 a fault was found, or nothing could be proved.`,
		Example: "  skein audit verify\n  skein audit verify --from audit.jsonl --checkpoints /mnt/worm/checkpoints --key node-a.pub",
		RunE: c.do(func(ctx context.Context, _ []string) error {
			if len(f.checkpoints) == 0 {
				f.checkpoints = []string{c.cfg.AuditCheckpoints()}
			}
			if len(f.keys) == 0 {
				f.keys = []string{c.cfg.AuditKey() + audit.PublicSuffix}
			}
			if f.from == "" {
				return c.reading(func(ctx context.Context, s *session, _ []string) error {
					body, err := skein.NewAudit(s.Client).Export(ctx)
					if err != nil {
						return err
					}
					defer body.Close()
					return auditVerify(c, &f, body)
				})(ctx, nil)
			}
			file, err := os.Open(f.from)
			if err != nil {
				return err
			}
			defer file.Close()
			return auditVerify(c, &f, file)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "file that skein audit export has written (default: ask the server)")
	fl.StringSliceVar(&f.checkpoints, "checkpoints", nil, "file of checkpoints; may be given several times (default that of the data folder)")
	fl.StringSliceVar(&f.keys, "key", nil, "file with the public key of a node; may be given several times (default that of the data folder)")
	notSettings(fl, "from", "checkpoints", "key")
	return cmd
}

// auditVerify compares an export with the files of the nodes.
func auditVerify(c *cli, f *auditFiles, export io.Reader) error {
	keys := make([]note.Verifier, len(f.keys))
	for i, path := range f.keys {
		key, err := audit.PublicKey(path)
		if err != nil {
			return hint(err, "give the file with --key; a node writes its public key next to audit_key_file")
		}
		keys[i] = key
	}
	var points []audit.Checkpoint
	invalid := 0
	for _, path := range f.checkpoints {
		some, bad, err := audit.Checkpoints(path, note.VerifierList(keys...))
		if err != nil {
			return hint(err, "a node makes the file within seconds of the first change that the log has; give the file of another node with --checkpoints")
		}
		points, invalid = append(points, some...), invalid+bad
	}
	report, err := audit.Read(export, func(h audit.Head) (*audit.Verifier, error) {
		own := points[:0:0]
		for i := range points {
			if points[i].Origin == h.Origin {
				own = append(own, points[i])
			}
		}
		if len(own) == 0 {
			return nil, fmt.Errorf("nothing is proved: %d checkpoints of %s are valid, but none of them belongs to this log, %s",
				len(points), strings.Join(f.checkpoints, ", "), h.Origin)
		}
		return audit.NewVerifier(h.Tree, own, h.Keep, time.Now()), nil
	})
	if err != nil {
		return err
	}
	return auditReport(c, &report, invalid)
}

// auditReport prints the result of a check.
func auditReport(c *cli, r *audit.Report, invalid int) error {
	err := show(c, r.Findings, func(f audit.Finding) string { return f.Kind }, []column[audit.Finding]{
		{head: "KIND", get: func(f audit.Finding) string { return f.Kind }},
		{head: "ROWS", get: func(f audit.Finding) string { return fmt.Sprintf("%d-%d", f.From, max(f.From, f.To-1)) }},
		{head: "CHANGED AFTER", get: func(f audit.Finding) string { return auditStamp(f.Since) }},
		{head: "WHAT", get: func(f audit.Finding) string { return f.Text }},
	})
	if err != nil {
		return err
	}
	for _, one := range r.Regresses {
		c.say("the database went back to an earlier state before era %d, and the nodes noticed it (%s): rows %d to %d were lost; is this restore or failover known to you?",
			one.Era, auditStamp(one.At), one.From, one.To-1)
	}
	if invalid > 0 {
		c.say("%s not signed by the given keys, or damaged; they do not count", count(invalid, "checkpoint"))
	}
	if r.Older > 0 {
		c.say("%s of rows that retention has deleted", count(r.Older, "checkpoint"))
	}
	if rest := r.Size - r.Covered; rest > 0 || r.Fresh > 0 {
		c.say("%s no checkpoint yet", count(int(rest)+r.Fresh, "row"))
	}
	if !r.Good() {
		return fmt.Errorf("the audit log was tampered with: %s", count(len(r.Findings), "finding"))
	}
	if r.Checkpoints == 0 {
		return errors.New("nothing is proved: no checkpoint covers the existing rows")
	}
	c.say("rows %d to %d are as the checkpoints say (%s compared)", r.First, r.Covered-1, count(r.Checkpoints, "checkpoint"))
	return nil
}

func auditStamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
