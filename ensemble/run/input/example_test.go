package input_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	fio "github.com/ensemble-weather/ensemble/io"
)

// Read temperature at 850 hPa of all members, interpolated to a 1° grid.
func ExampleSelectForecasts() {
	ctx := context.Background()
	in, err := fio.Open(ctx, []string{"fc.grib2"}, fio.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	grid, err := ensemble.NamedGrid("1deg")
	if err != nil {
		log.Fatal(err)
	}
	axes := ensemble.Axes{Leads: []ensemble.Lead{0}, Variables: []string{"t"}, Levels: []ensemble.Level{ensemble.PressureLevel(85000)}}
	to := input.Destination{Grid: grid, How: task.Interpolation{Method: "bilinear"}, Fix: input.FixRegrid}
	chosen, err := input.SelectForecasts(in, input.RequiredFields{Axes: axes, Members: in.Catalogue().Members(), OfTraining: true}, to, input.StatisticRequest{})
	if err != nil {
		log.Fatal(err)
	}
	forecasts, warnings, err := chosen.Read(ctx, chosen.Inits, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(forecasts), "initialisations", warnings)
}

// A policy selects the input members of a network from the full ensemble.
func ExampleChooseMembers() {
	have := []ensemble.Member{0, 1, 2, 3, 4, 5}
	used, all, err := input.ChooseMembers(have, nil, 3, 5, "exclude")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(used, all)
	// Output: [1 2 3] [1 2 3 4 5]
}
