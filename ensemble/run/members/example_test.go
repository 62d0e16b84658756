package members_test

import (
	"fmt"
	"log"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/members"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Make three calibrated members of 2 m temperature at one station. The raw members 283, 281 and 282 K give the order,
// a normal distribution of mean 284 K and standard deviation 2 K the values: its quantiles of the levels 1/6, 1/2 and 5/6.
func ExampleCoupling_Couple() {
	grid := ensemble.StationGrid([]ensemble.Station{{ID: "10381", Lat: 52.5, Lon: 13.4}})
	field := &product.Field{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Lead: ensemble.Lead(48 * time.Hour)}
	draws := members.Draws(ensemble.InitAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), field, grid)
	c := members.Coupling{Coupling: config.Coupling{Method: config.QuantileCoupling, Levels: config.MidLevels}}
	raw := [][]float32{{283}, {281}, {282}}
	calibrated, err := c.Couple(draws, raw, dist.Normal, [][]float32{{284}, {2}})
	if err != nil {
		log.Fatal(err)
	}
	for m, x := range calibrated {
		fmt.Printf("member %d: %.1f K\n", m+1, x[0])
	}
	// Output:
	// member 1: 285.9 K
	// member 2: 282.1 K
	// member 3: 284.0 K
}

// Calibrated members of ensemble copula coupling have the numbers of the raw ones, those of the Schaake shuffle begin at 1.
func ExampleCoupling_Members() {
	used := []ensemble.Member{0, 3, 7}
	ecc := members.Coupling{Coupling: config.Coupling{Method: config.QuantileCoupling}}
	schaake := members.Coupling{Coupling: config.Coupling{Method: config.SchaakeCoupling, Count: 4}}
	fmt.Println(ecc.Members(used), schaake.Members(used))
	// Output: [0 3 7] [1 2 3 4]
}
