package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/nearest"
)

// Annotations of commands that the help and the manual pages print.
const (
	codesAnnotation = "exit codes" // "0 65 66"
	seeAnnotation   = "see also"
)

// annotations returns the annotations of a command: its exit codes besides 0, 64 and 70, which all
// commands have, and its "see also".
func annotations(see string, codes ...exit.Code) map[string]string {
	all := append([]exit.Code{exit.OK, exit.Usage, exit.Bug}, codes...)
	slices.Sort(all)
	words := make([]string, len(all))
	for i, c := range all {
		words[i] = fmt.Sprint(int(c))
	}
	return map[string]string{codesAnnotation: strings.Join(words, " "), seeAnnotation: see}
}

// width is the number of columns that help never exceeds.
const width = 80

// setHelp replaces cobra's help: description, usage, examples, flags by group with defaults,
// exit codes, see also; at most width columns.
func setHelp(a *app) {
	a.root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		a.result.printed = true
		writeHelp(a.stdout, cmd)
	})
	a.root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprintln(a.stderr, "usage: "+cmd.UseLine())
		return err
	})
	a.root.SetHelpCommand(helpCommand(a))
}

func writeHelp(w io.Writer, cmd *cobra.Command) {
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintln(w, long)
	usage := cmd.UseLine()
	if !cmd.HasParent() {
		usage = "ensemble COMMAND [flags]"
	}
	fmt.Fprintf(w, "\nUsage:\n  %s\n", usage)
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if subs := visibleCommands(cmd); cmd.HasParent() && len(subs) > 0 {
		fmt.Fprintln(w, "\nCommands:")
		writeCommands(w, subs)
	} else if !cmd.HasParent() {
		writeGroups(w, subs, func(g commandGroup) bool { return g.first })
		fmt.Fprintln(w, "\nOther commands: ensemble help all")
	}
	section := func(title string, f *pflag.FlagSet) {
		if f.HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", title, f.FlagUsagesWrapped(width))
		}
	}
	if cmd.HasParent() {
		section("Flags", cmd.LocalNonPersistentFlags())
		section("Common flags", cmd.InheritedFlags())
	} else {
		section("Flags", cmd.Flags())
	}
	if codes := cmd.Annotations[codesAnnotation]; codes != "" {
		fmt.Fprintln(w, "\nExit codes:")
		for word := range strings.FieldsSeq(codes) {
			for _, c := range exit.All {
				if fmt.Sprint(int(c.Code)) == word {
					fmt.Fprintf(w, "  %-3d %s\n", c.Code, c.Meaning)
				}
			}
		}
	}
	see := cmd.Annotations[seeAnnotation]
	if see == "" && !cmd.HasParent() {
		see = "ensemble help exit-codes, ensemble help COMMAND, docs/glossary.md"
	}
	if see != "" {
		fmt.Fprintf(w, "\nSee also: %s\n", see)
	}
}

// writeCommands lists commands.
func writeCommands(w io.Writer, all []*cobra.Command) {
	for _, c := range all {
		fmt.Fprintf(w, "  %-12s %s\n", c.Name(), c.Short)
	}
}

// writeGroups lists the commands of some groups below their titles.
func writeGroups(w io.Writer, all []*cobra.Command, shown func(commandGroup) bool) {
	for _, g := range commandGroups {
		if shown(g) {
			fmt.Fprintf(w, "\n%s:\n", g.title)
			writeCommands(w, slices.DeleteFunc(slices.Clone(all), func(c *cobra.Command) bool { return c.GroupID != g.title }))
		}
	}
}

func visibleCommands(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool { return c.Hidden || !c.IsAvailableCommand() })
}

func helpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND... | all | exit-codes | E065]",
		Short:   "Explain a command, all commands, the exit codes or an error number",
		Example: "  ensemble help train\n  ensemble help all\n  ensemble help exit-codes\n  ensemble help E065",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(commandNames(a.root), "all", "exit-codes"), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.result.printed = true
			switch {
			case len(args) == 0:
				writeHelp(a.stdout, a.root)
				return nil
			case args[0] == "all":
				fmt.Fprintln(a.stdout, "All commands of ensemble.")
				writeGroups(a.stdout, visibleCommands(a.root), func(commandGroup) bool { return true })
				return nil
			case args[0] == "exit-codes":
				writeExitCodes(a.stdout)
				return nil
			}
			for _, c := range exit.All {
				if strings.EqualFold(args[0], fmt.Sprintf("E%03d", int(c.Code))) {
					writeErrorCode(a.stdout, c.Code, c.Meaning, c.Advice)
					return nil
				}
			}
			found, rest, err := a.root.Find(args)
			if err != nil || len(rest) > 0 || found == a.root {
				a.result.printed = false
				fix := "`ensemble --help` lists the commands"
				if near := nearest.Find(args[0], append(commandNames(a.root), "exit-codes")); near != "" {
					fix = "did you mean `ensemble help " + near + "`?"
				}
				return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("no help for %q", strings.Join(args, " ")), At: "ensemble help", Fix: fix}
			}
			writeHelp(a.stdout, found)
			return nil
		},
	}
}

func commandNames(root *cobra.Command) []string {
	var list []string
	for _, c := range visibleCommands(root) {
		list = append(list, c.Name())
	}
	return list
}

func writeExitCodes(w io.Writer) {
	fmt.Fprintln(w, "code  meaning                                                      scheduler")
	for _, c := range exit.All {
		fmt.Fprintf(w, "%-5d %-60s %s\n", c.Code, c.Meaning, c.Advice)
	}
	fmt.Fprintln(w, "\n2 is the exit code of a crash of the Go runtime: a bug, like 70.\n130 follows a second Ctrl-C at a terminal: nothing was saved.")
}

// commonCauses describes the most frequent causes of each exit code, for `ensemble help E065`.
var commonCauses = map[exit.Code]string{
	exit.No:          "A check, verification or experiment found a fault or failed a threshold.",
	exit.Usage:       "An unknown flag or key, a value out of range, mutually exclusive options.\nThe message names file, line and column and the nearest valid key.",
	exit.BadData:     "A truncated or damaged file, a file of another format, differing units or\ngrids, mixed initialisations, a pickle file instead of safetensors.",
	exit.NotYet:      "A file or a member is missing, perhaps because it has not arrived yet.",
	exit.NoDevice:    "A required library or device is missing; `ensemble doctor` lists those found.",
	exit.Bug:         "An internal error. Please report it.",
	exit.RankLost:    "A rank of a parallel job died or hung.",
	exit.CannotWrite: "The output exists, is locked by another run, or is not writable.",
	exit.IO:          "A full disk, an exceeded quota, a failing device. No partial files remain.",
	exit.SaveAndStop: "A signal stopped the program; its state is saved.",
}

func writeErrorCode(w io.Writer, code exit.Code, meaning, advice string) {
	fmt.Fprintf(w, "E%03d, exit code %d: %s\n", int(code), int(code), meaning)
	if t := commonCauses[code]; t != "" {
		fmt.Fprintf(w, "\n%s\n", t)
	}
	fmt.Fprintf(w, "\nA scheduler should: %s\n", advice)
}
