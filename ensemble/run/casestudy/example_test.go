package casestudy_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble/run/casestudy"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
)

// Score a model in a box.
func ExampleRun() {
	r, err := casestudy.Run(context.Background(), casestudy.Options{
		Verify: verify.Options{Forecast: []string{"products/2016021900/t850.nc"}, Analysis: []string{"an_2016.nc"}, Members: []string{"fc_2016021900.grib2"}},
		Dir:    "study", Box: "fiji=-22:-14:174:184",
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range r.Rows {
		fmt.Println(row.Variable, row.Lead, row.Network, row.RawFull)
	}
}

// Read the track of a storm.
func ExampleReadTrack() {
	dir, err := os.MkdirTemp("", "track")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "winston.csv")
	text := "time,lat,lon,radius_km\n2016-02-20T00:00:00Z,-17.2,178.4,500\n2016-02-20T12:00:00Z,-17.6,176.0,500\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	track, err := casestudy.ReadTrack(path)
	fmt.Println(len(track), track[0].Lat, track[0].Lon, err)
	// Output: 2 -17.2 178.4 <nil>
}
