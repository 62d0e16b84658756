package main

import "github.com/spf13/cobra"

// commandGroup is a group of commands by what a user wants.
type commandGroup struct {
	title   string
	first   bool // in the first help; the others are in `ensemble help all`
	members []func(*app) *cobra.Command
}

// commandGroups lists the constructors of the subcommands, in the order of `ensemble help all`.
var commandGroups = []commandGroup{
	{"Try", true, []func(*app) *cobra.Command{demoCommand, doctorCommand}},
	{"Start with your data", true, []func(*app) *cobra.Command{inspectCommand, initCommand, checkCommand}},
	{"Train", true, []func(*app) *cobra.Command{trainCommand, configCommand}},
	{"Forecast", true, []func(*app) *cobra.Command{predictCommand, serveCommand}},
	{"Judge", true, []func(*app) *cobra.Command{verifyCommand, reportCommand}},
	{"Operate", false, []func(*app) *cobra.Command{productsCommand, healthCommand}},
	{"Prepare data and models", false, []func(*app) *cobra.Command{dataCommand, modelCommand}},
	{"Compress", false, []func(*app) *cobra.Command{pruneCommand, distilCommand, quantiseCommand}},
	{"Experiment", false, []func(*app) *cobra.Command{experimentCommand}},
	{"Look inside", false, []func(*app) *cobra.Command{planCommand, engineCommand, benchCommand, selfTestCommand}},
	{"Install", false, []func(*app) *cobra.Command{completionCommand, manCommand, versionCommand}},
}

// addCommands adds all commands with their groups.
func addCommands(a *app) {
	cobra.EnableCommandSorting = false // the order is that of work
	for _, g := range commandGroups {
		a.root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, build := range g.members {
			c := build(a)
			c.GroupID = g.title
			a.root.AddCommand(c)
		}
	}
}
