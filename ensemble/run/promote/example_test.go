package promote_test

import (
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/run/promote"
)

// Point a model name at a training if its shadow run was better.
func ExamplePromote() {
	p, err := promote.Promote(promote.Options{Name: "models/t850", RunDir: "runs/gcm", Verdict: "rolling/shadow/verdict.json"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Version, "replaces", p.Previous)
}

// Return to the model before, and list the history.
func ExampleRollBack() {
	if _, err := promote.RollBack("models/t850", ""); err != nil {
		log.Fatal(err)
	}
	list, err := promote.ListPromotions("models/t850")
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range list {
		fmt.Println(p.At, p.Action, p.Version)
	}
}

// A verdict as one line.
func ExampleVerdict_String() {
	v := promote.Verdict{Verdict: promote.VerdictBetter, Inits: 30, CRPSS: 0.021, CILow: 0.008, CIHigh: 0.034}
	fmt.Println(&v)
	// Output: verdict on 30 initialisations: better; CRPSS +2.1 % [+0.8, +3.4]
}
