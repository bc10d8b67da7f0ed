package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

// instancesMax bounds the instances of a foreach that a table names. If there are more, one line replaces
// them.
const instancesMax = 20

// instancesFlag adds a flag that makes a table name every instance.
func instancesFlag(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "instances", false, fmt.Sprintf("show every instance of a foreach, also if there are more than %d", instancesMax))
}

// folded replaces the instances of a foreach with many instances by one line, at the position of the first
// instance. Only the table for people is shortened: other formats list all of them.
func (c *cli) folded(tasks []api.Task, all bool) []api.Task {
	if all || c.format != "table" {
		return tasks
	}
	counts := map[string]map[string]int{}
	total := map[string]int{}
	for i := range tasks {
		if of, _, instance := strings.Cut(tasks[i].Name, "."); instance {
			if counts[of] == nil {
				counts[of] = map[string]int{}
			}
			counts[of][tasks[i].State]++
			total[of]++
		}
	}
	var out []api.Task
	for i := range tasks {
		of, _, instance := strings.Cut(tasks[i].Name, ".")
		if !instance || total[of] <= instancesMax {
			out = append(out, tasks[i])
			continue
		}
		if counts[of] != nil {
			out = append(out, foldedLine(of, total[of], counts[of]))
			counts[of] = nil
		}
	}
	return out
}

// foldedName is the end of the name in a line that replaces several instances.
const foldedName = ".*"

func foldedLine(of string, total int, counts map[string]int) api.Task {
	t := api.Task{Name: of + foldedName}
	var parts []string
	for _, state := range inOrder {
		if n := counts[state]; n > 0 {
			if t.State == "" {
				t.State = state // the most important state of the instances
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	why := fmt.Sprintf("%d instances: %s (--instances names them)", total, strings.Join(parts, ", "))
	t.Cause = &why
	return t
}
