package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func productsCommand(a *app) *cobra.Command {
	return group(a, &cobra.Command{
		Use:   "products",
		Short: "Decide about initialisations, and remove old products",
		Long: "Decide about the initialisations of a running service: accept or dismiss input\n" +
			"that changed after the products were issued, retry a failed initialisation, or\n" +
			"acknowledge a failed, degraded or late one, or a delivery that was given up,\n" +
			"which ends the alerts. A decision is a file in the product directory that the\n" +
			"service reads at its next scan.\n" +
			"`prune` removes the products of old initialisations.",
		Example: "  ensemble products accept 2026010100 --out products\n" +
			"  ensemble products acknowledge 2026010112 --out products\n" +
			"  ensemble products prune --out products --keep 30d",
		Annotations: annotations("ensemble serve"),
	},
		decisionCommand(a, serve.Accept, "Make products again from changed input",
			"Make products again from input that changed after they were issued, or by the\n"+
				"model that was promoted since. The new products replace the old ones at once.\n"+
				"If the input changes once more meanwhile, the old ones stay."),
		decisionCommand(a, serve.Dismiss, "Leave products as they are",
			"Leave products as they are although their input changed after they were issued.\n"+
				"Input that changes once more is reported again."),
		decisionCommand(a, serve.Retry, "Attempt a failed initialisation at once",
			"Attempt a failed initialisation at the next scan of the service, whatever the\n"+
				"time of its next attempt, and also if only other files would cause one."),
		decisionCommand(a, serve.Acknowledge, "End the alerts on an initialisation",
			"End the alerts on a failed, degraded or late initialisation. Its state stays.\n"+
				"Another failure, or one of other input, raises them again."),
		decisionCommand(a, serve.AcknowledgeDelivery, "End the alerts on a delivery that was given up",
			"End the alerts on the delivery of products that was given up. A service that is\n"+
				"reloaded or restarted attempts it again; the alerts return for other products."),
		productsPrune(a))
}

// decisionCommand returns the command of an action on an initialisation.
func decisionCommand(a *app, action serve.Action, short, long string) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:         string(action) + " INIT --out DIR",
		Short:       short,
		Long:        long,
		Example:     "  ensemble products " + string(action) + " 2026010100 --out products",
		Annotations: annotations("ensemble serve", exit.No, exit.BadData, exit.NotYet, exit.CannotWrite, exit.IO),
		Args:        exactlyOneArg,
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "product `DIR` of the service")
	cmd.RunE = a.runJob(func(_ context.Context, args []string) (result, error) {
		if err := requireFlags(cmd, "out"); err != nil {
			return result{}, err
		}
		init, err := parseInit(args[0], "the argument INIT")
		if err != nil {
			return result{}, err
		}
		made, earlier, err := serve.Decide(out, init, action)
		if err != nil {
			return result{}, err
		}
		return result{data: map[string]any{"decision": made, "earlier": earlier}, text: func(w io.Writer) error {
			text := fmt.Sprintf("%s %s: the service follows at its next scan", made.Action, made.Init)
			if earlier != nil {
				text += fmt.Sprintf("; this replaces %q of %s", earlier.Action, earlier.Time.Format(time.RFC3339))
			}
			_, err := fmt.Fprintln(w, text)
			return err
		}}, nil
	})
	return cmd
}
