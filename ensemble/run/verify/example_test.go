package verify_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
)

// Score products against analyses, with the raw ensemble as reference.
func ExampleRun() {
	r, err := verify.Run(context.Background(), verify.Options{
		Forecast: []string{"products/2026010100/t850.nc"}, Analysis: []string{"an_2026.nc"}, Members: []string{"fc_2026010100.grib2"},
		RunDir: "runs/gcm", Out: "verification",
		Selection: scoring.Selection{Scores: []string{"default", "crps_fair"}, Regions: []string{"europe"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range r.Scores.Comparisons {
		fmt.Printf("%s of %s against %s: skill score %.3f\n", c.ID, c.System, c.Reference, c.SkillScore)
	}
}

// Join the partial sums of verifications of single months.
func ExampleJoinSums() {
	files, err := verify.SumsFiles("--join", []string{"sums"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := verify.JoinSums(verify.JoinOptions{Files: files, Out: "verification"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Outputs)
}

// Verify new products every day, and compare with the model in use.
func ExampleRolling() {
	r, err := verify.Rolling(context.Background(), verify.RollingOptions{
		Options: verify.Options{Forecast: []string{"shadow/2026010100/t850.nc"}, Analysis: []string{"an_2026.nc"}},
		Dir:     "rolling/shadow", Against: "rolling/operational",
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range r.Alarms.Alarms {
		fmt.Println(a.Text)
	}
	if r.Verdict != nil {
		fmt.Println(r.Verdict)
	}
}

// Narrow the band of the spread-skill ratio.
func ExampleBands_Set() {
	b := verify.DefaultBands
	if err := b.Set("spread_skill=0.9:1.1"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(b.SpreadSkill)
	// Output: [0.9 1.1]
}
