package main

import "github.com/spf13/cobra"

// commands lists the constructors of the subcommands, in the order of `ensemble --help`.
var commands = []func(*app) *cobra.Command{
	demoCommand,
	inspectCommand,
	initCommand,
	dataCommand,
	checkCommand,
	trainCommand,
	pruneCommand,
	distilCommand,
	quantiseCommand,
	predictCommand,
	serveCommand,
	verifyCommand,
	reportCommand,
	experimentCommand,
	modelCommand,
	planCommand,
	engineCommand,
	benchCommand,
	doctorCommand,
	selfTestCommand,
	configCommand,
	completionCommand,
	manCommand,
	versionCommand,
}
