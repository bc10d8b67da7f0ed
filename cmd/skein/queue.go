package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) queueCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "queue", Short: "Manage named queues, which limit the concurrent runs and tasks of several workflows",
		Long: `A queue NAME is shared by all namespaces. A queue NAMESPACE/NAME belongs to its namespace: its workflows name it
by NAME, and then pass this queue in place of a shared one of that name.`,
		Example: "  skein queue set etl --limit 5\n  skein queue set shop/etl --limit 2\n  skein queue list",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.queueListCmd(), c.queueGetCmd(), c.queueSetCmd(), c.queueDeleteCmd(),
		c.queueStateCmd("pause", "Pause a queue: no run gets a queue slot, new runs wait", (*skein.Client).PauseQueue),
		c.queueStateCmd("drain", "Drain a queue: admit queued runs, reject new ones", (*skein.Client).DrainQueue),
		c.queueResumeCmd())
	return cmd
}

// queueTable prints a list of queues.
func (c *cli) queueTable(all []api.Queue) error {
	return show(c, all, queueName, []column[api.Queue]{
		{head: "QUEUE", get: queueName},
		{head: "STATE", get: func(q api.Queue) string { return c.state(q.State) }},
		{head: "HELD", get: func(q api.Queue) string { return strconv.FormatInt(q.Held, 10) }},
		{head: "LIMIT", get: queueLimit},
		{head: "WAITING", get: func(q api.Queue) string { return strconv.FormatInt(q.Waiting, 10) }},
		{head: "TASKS", get: queueTasks},
		{head: "ORDER", get: func(q api.Queue) string { return q.Order }},
		{head: "OVERFLOW", get: func(q api.Queue) string { return q.Overflow }},
		{head: "RATE", get: func(q api.Queue) string { return orDash(text(q.Rate)) }},
		{head: "WHY", get: func(q api.Queue) string { return c.queueWhy(&q) }},
	})
}

// queueTasks returns the numbers of tasks that have a slot and of tasks that wait.
func queueTasks(q api.Queue) string {
	switch t := q.Tasks; {
	case t.Waiting > 0:
		return fmt.Sprintf("%d, %d wait", t.Held, t.Waiting)
	case t.Held > 0:
		return strconv.FormatInt(t.Held, 10)
	}
	return "-"
}

// queueCrews lists the runs of the tasks that have or want slots.
func (c *cli) queueCrews(q *api.Queue) error {
	if len(q.Tasks.Runs) == 0 {
		return nil
	}
	fmt.Fprintln(c.out)
	return show(c, q.Tasks.Runs, func(t api.QueueTasksOf) string { return t.Run }, []column[api.QueueTasksOf]{
		{head: "RUN", get: func(t api.QueueTasksOf) string { return t.Run }},
		{head: "KEY", get: func(t api.QueueTasksOf) string { return orDash(text(t.Key)) }},
		{head: "HELD", get: func(t api.QueueTasksOf) string { return strconv.FormatInt(t.Held, 10) }},
		{head: "WAITING", get: func(t api.QueueTasksOf) string { return strconv.FormatInt(t.Waiting, 10) }},
		{head: "SINCE", get: func(t api.QueueTasksOf) string { return c.when(t.Since) }},
		{head: "RUNNING", get: func(t api.QueueTasksOf) string { return orDash(strings.Join(t.Running, " ")) }},
		{head: "READY", get: func(t api.QueueTasksOf) string { return orDash(strings.Join(t.Ready, " ")) }},
	})
}

func queueName(q api.Queue) string { return q.Name }

func queueLimit(q api.Queue) string {
	switch {
	case q.Limit == nil:
		return "-"
	case q.PerKey != nil:
		return fmt.Sprintf("%d per %s", *q.Limit, *q.PerKey)
	}
	return strconv.Itoa(int(*q.Limit))
}

// queueWhy says who paused the queue, why, and until when.
func (c *cli) queueWhy(q *api.Queue) string {
	why := text(q.Reason)
	if by := text(q.User); by != "" {
		why = by + ": " + why
	}
	if q.Until != nil {
		why += " (until " + c.due(q.Until) + ")"
	}
	return orDash(why)
}

func (c *cli) queueListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the queues with used slots, limit and waiting runs",
		Example: "  skein queue list\n  skein queue list -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Queue], error) {
				return s.Queues(ctx, cursor, 1000)
			})
			if err != nil {
				return err
			}
			return c.queueTable(all)
		})),
	}
	c.emptyIsFine(cmd)
	return cmd
}

func (c *cli) queueGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get QUEUE", Short: "Show a queue, and the tasks that have a queue slot or wait for one",
		Example: "  skein queue get etl\n  skein queue get etl -o json",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			q, err := s.Queue(ctx, args[0])
			if err != nil {
				return err
			}
			return one(c, q, q.Name, func() error {
				if err := c.queueTable([]api.Queue{q}); err != nil {
					return err
				}
				return c.queueCrews(&q)
			})
		})),
	}
}

func (c *cli) queueSetCmd() *cobra.Command {
	var limit int32
	var want api.QueueRequest
	cmd := &cobra.Command{
		Use: "set QUEUE", Short: "Create a queue, or change the given settings of one",
		Long: `Creates a named queue, or changes the given values of an existing one. A workflow, trigger or task names the
queue with its key queue:. Runs and tasks are counted separately, each up to the limit. --overflow applies to
runs only: tasks always wait.

A change takes effect at once. A higher limit admits waiting runs. Under a lower limit, admitted runs continue.

QUEUE is NAME for a queue that all namespaces share, or NAMESPACE/NAME.

--per-key is a CEL expression over params and trigger.time. Each of its values has an order and a limit of its
own. --rate counts the whole queue, and its grants are spread evenly.`,
		Example: "  skein queue set etl --limit 5\n  skein queue set api --limit 2 --per-key params.customer --rate 10/s --order priority",
		Args:    cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.Int32Var(&limit, "limit", 0, "largest number of queue slots, for each key; 0: no limit")
	f.StringVar(&want.PerKey, "per-key", "", "expression whose values have a limit of their own; \"\": one limit for all runs")
	f.StringVar(&want.Order, "order", "fifo", "order of waiting runs: fifo | priority")
	f.StringVar(&want.Overflow, "overflow", "wait", "action for a run that finds no free slot: wait | skip | fail")
	f.StringVar(&want.Rate, "rate", "", "largest rate of grants: N/s, N/m or N/h; \"\": no limit")
	cmd.RunE = c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
		def, opts := want, []skein.CallOption(nil)
		def.Limit = limit
		is, err := s.Queue(ctx, args[0])
		switch {
		case err == nil: // settings that are not given do not change
			opts = append(opts, skein.IfRevision(is.Revision))
			keep := func(flag string, to *string, was string) {
				if !f.Changed(flag) {
					*to = was
				}
			}
			keep("per-key", &def.PerKey, text(is.PerKey))
			keep("order", &def.Order, is.Order)
			keep("overflow", &def.Overflow, is.Overflow)
			keep("rate", &def.Rate, text(is.Rate))
			if !f.Changed("limit") && is.Limit != nil {
				def.Limit = *is.Limit
			}
		case !errors.Is(err, skein.ErrNotFound):
			return err
		}
		q, err := s.SetQueue(ctx, args[0], def, opts...)
		if err != nil {
			return err
		}
		return c.queueTable([]api.Queue{q})
	}))
	return cmd
}

func (c *cli) queueStateCmd(verb, short string, do func(*skein.Client, context.Context, string, api.QueueStateRequest) (api.Queue, error)) *cobra.Command {
	var reason, until string
	cmd := &cobra.Command{
		Use: verb + " QUEUE", Short: short, Long: short + ".\nRuns and tasks that have a queue slot keep it.\n" + momentHelp,
		Example: "  skein queue " + verb + " etl --reason \"warehouse moves\" --until +2h",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			m, err := momentsIn("")
			if err != nil {
				return err
			}
			why := api.QueueStateRequest{Reason: reason}
			at, err := m.until("--until", until)
			if err != nil {
				return err
			}
			if !at.IsZero() {
				why.Until = &api.Time{Time: at}
			}
			q, err := do(s.Client, ctx, args[0], why)
			if err != nil {
				return err
			}
			return c.queueTable([]api.Queue{q})
		})),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown by skein explain for waiting runs")
	cmd.Flags().StringVar(&until, "until", "", "time T at which the queue resumes by itself (default: it stays until skein queue resume)")
	return cmd
}

func (c *cli) queueResumeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE", Short: "End a pause or a drain",
		Example: "  skein queue resume etl",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			q, err := s.ResumeQueue(ctx, args[0])
			if err != nil {
				return err
			}
			return c.queueTable([]api.Queue{q})
		})),
	}
}

func (c *cli) queueDeleteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "delete QUEUE", Short: "Remove a queue that no run uses",
		Example: "  skein queue delete etl",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if err := s.DeleteQueue(ctx, args[0]); err != nil {
				return err
			}
			c.say("queue %s is removed", args[0])
			return nil
		})),
	}
}

func (c *cli) lockCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "lock", Short: "Show which run holds which named lock", Example: "  skein lock list"}
	needsVerb(cmd)
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the locks that runs hold",
		Long: `Lists the named locks that runs hold. TOKEN is the number that the tasks of the run see as SKEIN_LOCK_TOKEN. It
rises with every grant, so the protected system can refuse requests with a smaller number.`,
		Example: "  skein lock list\n  skein lock list -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			page, err := s.Locks(ctx)
			if err != nil {
				return err
			}
			return show(c, page.Items, func(l api.Lock) string { return l.Name }, []column[api.Lock]{
				{head: "LOCK", get: func(l api.Lock) string { return l.Name }},
				{head: "NAMESPACE", get: func(l api.Lock) string { return orDash(text(l.Namespace)) }},
				{head: "RUN", get: func(l api.Lock) string { return l.Run }},
				{head: "TOKEN", get: func(l api.Lock) string { return strconv.FormatInt(l.Token, 10) }},
				{head: "SINCE", get: func(l api.Lock) string { return c.when(&l.Since) }},
			})
		})),
	}
	c.emptyIsFine(list)
	cmd.AddCommand(list)
	return cmd
}
