package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func completionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a shell completion script",
		Example: "  source <(ensemble completion bash)\n" +
			"  ensemble completion zsh > \"${fpath[1]}/_ensemble\"\n" +
			"  ensemble completion fish > ~/.config/fish/completions/ensemble.fish",
		Args: exactlyOneArg, ValidArgs: []string{"bash", "zsh", "fish"},
		Annotations: annotations(""),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.result.printed = slices.Contains(cmd.ValidArgs, args[0])
			switch args[0] {
			case "bash":
				return a.root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return a.root.GenZshCompletion(a.stdout)
			case "fish":
				return a.root.GenFishCompletion(a.stdout, true)
			}
			return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no completion script for %q", args[0]), At: cmd.CommandPath(), Fix: "give bash, zsh or fish"}
		},
	}
}

// completeKeys makes the shell complete the keys of a schema after --set.
func completeKeys(cmd *cobra.Command, schema *config.Schema) {
	keys := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var list []string
		for _, n := range schema.Names() {
			list = append(list, n+"=")
		}
		return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("set", keys); err != nil {
		panic(err) // --set is declared by the caller
	}
}

// completeFlags makes the shell complete the flags of cmd and of all its subcommands: --run-dir
// by existing run directories, flags with a fixed set of values by these.
func completeFlags(cmd *cobra.Command) {
	register := func(flag string, by cobra.CompletionFunc) {
		if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
			panic(err) // a flag has two completion functions
		}
	}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "run-dir" {
			register(f.Name, completeRunDirs)
		} else if known := f.Annotations[choicesAnnotation]; known != nil {
			register(f.Name, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// completeRunDirs completes the path of a run directory, or of any directory if no run directory
// matches.
func completeRunDirs(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if found := trained.CompleteDirectories(typed); len(found) > 0 {
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
