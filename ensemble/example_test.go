package ensemble_test

import (
	"fmt"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

func ExampleParseArea() {
	a, err := ensemble.ParseArea("70/-20/30/40") // north/west/south/east
	fmt.Println(a.North, a.West, a.South, a.East, err)
	// Output: 70 -20 30 40 <nil>
}

func ExampleNamedGrid() {
	for _, name := range []string{"1.5deg", "0.5deg@72/-20/30/45", "360x180", "F48"} {
		g, err := ensemble.NamedGrid(name)
		fmt.Println(g, err)
	}
	// Output:
	// regular_ll 240x121, 90 to -90 N, 0 to 358.5 E <nil>
	// regular_ll 131x85, 72 to 30 N, 340 to 405 E <nil>
	// regular_ll 360x180, 89.5 to -89.5 N, 0 to 359 E <nil>
	// regular_gg 192x96, 88.5722 to -88.5722 N, 0 to 358.125 E <nil>
}

func ExampleGrid_Crop() {
	g, _ := ensemble.NamedGrid("10deg")
	a, _ := ensemble.ParseArea("60/-10/40/20")
	part, places, err := g.Crop(a)
	fmt.Println(part, len(places), err)
	// Output: regular_ll 4x3, 60 to 40 N, 350 to 380 E 12 <nil>
}

func ExampleGrid_Weights() {
	g, _ := ensemble.NamedGrid("2x3")
	fmt.Printf("%.3f\n", g.Weights()) // cos(latitude) at 60, 0 and -60 degrees
	// Output: [0.500 0.500 1.000 1.000 0.500 0.500]
}

func ExampleParseLevel() {
	for _, text := range []string{"850hPa", "2m", "msl", "surface"} {
		l, err := ensemble.ParseLevel(text)
		fmt.Println(l, l.Value, err)
	}
	// Output:
	// 850hPa 85000 <nil>
	// 2m 2 <nil>
	// msl 0 <nil>
	// surface 0 <nil>
}

func ExampleParseVariableEvent() {
	e, err := ensemble.ParseVariableEvent("0degC<2t<5degC")
	fmt.Println(e.Variable, e.Event, e.Unit, err)
	// Output: 2t between 0 and 5 degC <nil>
}

func ExampleVariableNamed() {
	v, ok := ensemble.VariableNamed("2t")
	fmt.Println(v.LongName, v.Unit, v.Level, ok)
	// Output: 2 metre temperature K 2m true
}

func ExampleMeanSpread() {
	mean, spread := ensemble.MeanSpread([]float64{271, 273, 275}, 1) // K; divisor M-1
	fmt.Println(mean, spread)
	// Output: 273 2
}

func ExampleMemberRanges() {
	fmt.Println(ensemble.MemberRanges([]ensemble.Member{0, 1, 2, 5, 7, 8}))
	// Output: 0-2, 5, 7-8
}

func ExampleGaussianLatitudes() {
	fmt.Printf("%.4f\n", ensemble.GaussianLatitudes(4))
	// Output: [59.4444 19.8757 -19.8757 -59.4444]
}

func ExampleStandardHeight() {
	fmt.Printf("%.0f m\n", ensemble.StandardHeight(50000)) // of 500 hPa
	// Output: 5574 m
}

func ExampleFolds() {
	var inits []ensemble.Init
	for year := 2001; year <= 2004; year++ {
		inits = append(inits, ensemble.InitAt(time.Date(year, 7, 1, 0, 0, 0, 0, time.UTC)))
	}
	folds, err := ensemble.Folds(inits, 2, ensemble.Lead(48*time.Hour))
	fmt.Println(folds, err)
	// Output: [{[2 3] [0 1]} {[0 1] [2 3]}] <nil>
}

func ExamplePointSums() {
	g, _ := ensemble.NamedGrid("2x2")
	sums := ensemble.NewPointSums(g)
	sums.Add([]float32{270, 272, 274, 276})
	sums.Add([]float32{272, 274, 276, 278})
	n, err := sums.Global(g)
	fmt.Printf("mean %.1f K, scale %.2f K %v\n", n.Mean[0], n.Scale[0], err)
	// Output: mean 274.0 K, scale 2.45 K <nil>
}

func ExampleVariable_GuessUnit() {
	v, _ := ensemble.VariableNamed("2t")
	m, ok := v.GuessUnit(v.Level, -30, 35) // range of the values of a field that should be in K
	fmt.Println(m.Unit, ok)
	// Output: degC true
}
