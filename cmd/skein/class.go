package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) classCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "class", Short: "Manage resource classes: names for amounts of cpu and memory of tasks",
		Example: "  skein class set heavy --cpu 4 --memory 16Gi\n  skein class list",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.classListCmd(), c.classSetCmd(), c.classDeleteCmd())
	return cmd
}

func className(k api.Class) string { return k.Name }

func classTakes(some bool, text string) string {
	if !some {
		return "-"
	}
	return text
}

func (c *cli) classTable(all []api.Class) error {
	return show(c, all, className, []column[api.Class]{
		{head: "CLASS", get: className},
		{head: "CPU", get: func(k api.Class) string { return classTakes(k.CPU > 0, strconv.FormatFloat(k.CPU, 'f', -1, 64)) }},
		{head: "MEMORY", get: func(k api.Class) string { return classTakes(k.Memory > 0, size(k.Memory)) }},
		{head: "BY", get: func(k api.Class) string {
			if k.Builtin {
				return "skein"
			}
			return orDash(text(k.User))
		}},
		{head: "CHANGED", get: func(k api.Class) string { return c.when(k.ModifiedAt) }},
	})
}

func (c *cli) classListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the resource classes", Args: cobra.NoArgs,
		Example: "  skein class list",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			page, err := s.Classes(ctx)
			if err != nil {
				return err
			}
			return c.classTable(page.Items)
		})),
	}
}

func (c *cli) classSetCmd() *cobra.Command {
	var cpu, memory string
	cmd := &cobra.Command{
		Use: "set CLASS", Short: "Create or change a resource class",
		Long: `Creates or changes a resource class. CLASS is NAME for a class that all namespaces share, or NAMESPACE/NAME for
one that only workflows of this namespace can name, by NAME. Such a class takes precedence over a shared one of
that name. A resource without a flag is not part of the class.
Tasks name the class by resources: CLASS. A workflow keeps the amounts that the class had when the workflow was
applied, so apply it again after a change.
CPU is in cores, such as 2 or 0.5, or in thousandths of a core, such as 500m.`,
		Example: "  skein class set heavy --cpu 4 --memory 16Gi\n  skein class set shop/small --cpu 100m",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			def, err := classRequest(cpu, memory)
			if err != nil {
				return err
			}
			k, err := s.SetClass(ctx, args[0], def)
			if err != nil {
				return err
			}
			return c.classTable([]api.Class{k})
		})),
	}
	cmd.Flags().StringVar(&cpu, "cpu", "", "cores: 2, 0.5 or 500m")
	cmd.Flags().StringVar(&memory, "memory", "", "a size such as 512Mi or 4Gi")
	notSettings(cmd.Flags(), "cpu", "memory")
	return cmd
}

func classRequest(cpu, memory string) (def api.ClassRequest, err error) {
	if cpu == "" && memory == "" {
		return def, usage("give the resources of the class: --cpu, --memory, or both")
	}
	if cpu != "" {
		number, milli := strings.CutSuffix(cpu, "m")
		if def.CPU, err = strconv.ParseFloat(number, 64); err != nil || !(def.CPU > 0) {
			return def, usage("--cpu %s: use cores, such as 2, 0.5 or 500m", cpu)
		}
		if milli {
			def.CPU /= 1000
		}
	}
	if memory != "" {
		if def.Memory, err = workflow.ParseSize(strings.TrimSuffix(memory, "B")); err != nil {
			return def, usage("--memory: %s", err)
		}
	}
	return def, nil
}

func (c *cli) classDeleteCmd() *cobra.Command {
	return &cobra.Command{
		Use: "delete CLASS", Short: "Remove a resource class; workflows that were applied before keep its amounts",
		Example: "  skein class delete heavy",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if err := s.DeleteClass(ctx, args[0]); err != nil {
				return err
			}
			c.say("resource class %s is removed", args[0])
			return nil
		})),
	}
}
