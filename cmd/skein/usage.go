package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Bounds of the part of the arguments that an error about them repeats.
const (
	argsShown     = 5
	argShownBytes = 60
)

// sayArguments replaces the library's errors about the number of arguments, for a command and the commands
// below it. The new errors name the expected and the given arguments, so that the user notices missing
// quotes.
func sayArguments(cmd *cobra.Command) {
	_, wants, takes := strings.Cut(cmd.Use, " ")
	if check := cmd.Args; check != nil && (takes || !cmd.HasSubCommands()) {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) == nil {
				return nil
			}
			if !takes {
				return fmt.Errorf("%s takes no argument; %s", cmd.CommandPath(), given(args))
			}
			return fmt.Errorf("%s needs %s; %s", cmd.CommandPath(), wants, given(args))
		}
	}
	for _, below := range cmd.Commands() {
		sayArguments(below)
	}
}

// given says which arguments were given to a command.
func given(args []string) string {
	if len(args) == 0 {
		return "no argument was given"
	}
	shown := make([]string, 0, argsShown)
	for _, arg := range args[:min(len(args), argsShown)] {
		if len(arg) > argShownBytes {
			arg = strings.ToValidUTF8(arg[:argShownBytes], "") + "…"
		}
		shown = append(shown, strconv.Quote(arg))
	}
	if len(args) > argsShown {
		shown = append(shown, "…")
	}
	return count(len(args), "argument") + " given: " + strings.Join(shown, ", ")
}

// flagError replaces the library's errors about the value of a flag by errors that say which values the flag
// accepts.
func flagError(_ *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	wants, known := map[string]string{
		"bool": "true or false", "duration": "a length of time such as 30s",
		"int": "a whole number", "int32": "a whole number", "int64": "a whole number",
		"float64": "a number",
	}[wrong.GetFlag().Value.Type()]
	if !known {
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		wants += " that is smaller"
	}
	return fmt.Errorf("--%s %.*s: use %s", wrong.GetFlag().Name, argShownBytes, wrong.GetValue(), wants)
}

// apart moves those flags of a command that are not in own to the end of its help, under a title. So the few
// flags that most people need stay together.
func apart(cmd *cobra.Command, own map[string]bool, title string) {
	usual := cmd.UsageFunc()
	cmd.SetUsageFunc(func(of *cobra.Command) error {
		if of != cmd {
			return usual(of)
		}
		further := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !own[f.Name] && f.Name != "help" && cmd.InheritedFlags().Lookup(f.Name) == nil {
				further.AddFlag(f)
			}
		})
		shown := further.FlagUsages()
		further.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
		err := usual(cmd)
		further.VisitAll(func(f *pflag.Flag) { f.Hidden = false })
		fmt.Fprintf(cmd.OutOrStderr(), "\n%s:\n%s", title, shown)
		return err
	})
}

// namesOf returns the names of the flags that a command has so far.
func namesOf(cmd *cobra.Command) map[string]bool {
	names := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	return names
}
