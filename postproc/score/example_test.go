package score_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// The forecasts of the examples: 2 m temperature in °C at two neighbouring points on four
// dates, with three members at 24 and 48 h.
var (
	observed = [][]float32{{1, 2}, {-1, 0.5}, {3, -1}, {0.2, -2}} // [date][point]
	members  = [][][]float32{                                     // [date][member][point]
		{{0, 1}, {1, 3}, {2, 2}},
		{{-2, -1}, {0, 1}, {1, 0}},
		{{1, 2}, {2, 1}, {4, 3}},
		{{-1, 0}, {1, -1}, {0, -2}},
	}
)

// run verifies the forecasts by one score for three systems: "raw" has the members, "normal"
// their mean and spread, "censored" a normal distribution censored at 0. The event is
// frost-free weather, above 0 °C, and for the RPS also above 2 °C.
func run(s *score.Score) *score.Result {
	target := score.Target{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Lead: ensemble.Lead(48 * time.Hour), Unit: "degC"}
	systems := []score.System{
		{Name: "raw", MembersUsed: 3, Provides: score.Members | score.Leads},
		{Name: "normal", Provides: score.Mean | score.Spread},
		{Name: "censored", Provides: score.Parameters, Family: dist.CensoredNormal},
	}
	climate := make([][]float32, 101) // quantiles of N(0, 4) at every hundredth
	for k := range climate {
		q := float32(2 * dist.NormalQuantile(min(max(float64(k)/100, 1e-3), 1-1e-3)))
		climate[k] = []float32{q, q}
	}
	a, err := score.New(target, score.Grid{Weights: []float64{1, 1}, Name: "equal", NX: 2}, systems, score.Options{
		Scores: []string{s.ID}, Thresholds: []float64{0, 2}, FullSpread: true, Index: true, Climate: len(climate)})
	if err != nil {
		panic(err)
	}
	for t, obs := range observed {
		mean, spread := make([]float32, 2), make([]float32, 2)
		ensemble.MeanStd(mean, spread, members[t], 1)
		reference := score.Reference{Obs: obs, FullSpread: []float32{1.2, 1.2}, Index: []float32{0.2, 0.5}, Climate: climate, Earlier: [][]float32{{0, 1}}}
		earlier := [][][]float32{{{0, 0}, {1, 1}, {-1, 2}}} // members at 24 h
		samples := []score.Sample{{Members: members[t], Earlier: earlier}, {Mean: mean, Spread: spread}, {Parameters: [][]float32{mean, spread}}}
		if err := a.Add(ensemble.InitAt(time.Date(2026, 1, 1+t, 0, 0, 0, 0, time.UTC)), reference, samples); err != nil {
			panic(err)
		}
	}
	r, err := a.Result(significance.Bootstrap{}, nil)
	if err != nil {
		panic(err)
	}
	return r
}

// verify prints a score of the systems that have it; of several thresholds the first.
func verify(s *score.Score) {
	var parts []string
	seen := map[string]bool{}
	for _, v := range run(s).Scores {
		if !seen[v.System] {
			parts = append(parts, fmt.Sprintf("%s %.3f", v.System, float64(v.Value)))
		}
		seen[v.System] = true
	}
	fmt.Println(strings.Join(parts, ", ") + " " + s.UnitOf("degC"))
}

// draw prints the table of a diagram of the raw ensemble; of several thresholds the first.
func draw(s *score.Score) {
	d := run(s).Diagrams[0]
	fmt.Println(strings.Join(d.Columns, "  "))
	for _, row := range d.Rows {
		var cells []string
		for _, v := range row {
			cells = append(cells, fmt.Sprintf("%.3f", float64(v)))
		}
		fmt.Println(strings.Join(cells, "  "))
	}
}

func ExampleCRPSGauss() {
	verify(score.CRPSGauss)
	// Output: raw 0.629, normal 0.629 degC
}

func ExampleCRPSFamily() {
	verify(score.CRPSFamily)
	// Output: censored 0.856 degC
}

func ExampleCRPSPlain() {
	verify(score.CRPSPlain)
	// Output: raw 0.696 degC
}

func ExampleCRPSFair() {
	verify(score.CRPSFair)
	// Output: raw 0.446 degC
}

func ExampleCRPSAlmostFair() {
	verify(score.CRPSAlmostFair)
	// Output: raw 0.458 degC
}

func ExampleCRPSReliability() {
	verify(score.CRPSReliability)
	// Output: raw 0.055 degC
}

func ExampleCRPSPotential() {
	verify(score.CRPSPotential)
	// Output: raw 0.641 degC
}

func ExampleCRPSAbove() {
	verify(score.CRPSAbove)
	// Output: raw 0.404, normal 0.356 degC
}

func ExampleCRPSExpected() {
	verify(score.CRPSExpected)
	// Output: raw 0.750, normal 0.639 degC
}

func ExampleCRPSOverExpected() {
	verify(score.CRPSOverExpected)
	// Output: raw 0.594, normal 0.985 1
}

func ExampleEECRPSGauss() {
	verify(score.EECRPSGauss)
	// Output: raw 0.261, normal 0.261 degC
}

func ExampleEECRPSPlain() {
	verify(score.EECRPSPlain)
	// Output: raw 0.279 degC
}

func ExampleMeanAbsEFI() {
	verify(score.MeanAbsEFI)
	// Output: raw 0.254, normal 0.247, censored 0.251 1
}

func ExampleMeanAbsEFIENS10() {
	verify(score.MeanAbsEFIENS10)
	// Output: raw 0.253 1
}

func ExampleSOTUpper() {
	verify(score.SOTUpper)
	// Output: raw -1.437, normal -1.173, censored -1.173 1
}

func ExampleSOTLower() {
	verify(score.SOTLower)
	// Output: raw -2.155, normal -1.891, censored -2.335 1
}

func ExampleRMSE() {
	verify(score.RMSE)
	// Output: raw 1.182, normal 1.182 degC
}

func ExampleMAE() {
	verify(score.MAE)
	// Output: raw 0.838, normal 0.754, censored 0.921 degC
}

func ExampleBias() {
	verify(score.Bias)
	// Output: raw 0.412, normal 0.412 degC
}

func ExampleCorrelation() {
	verify(score.Correlation)
	// Output: raw 0.704, normal 0.704 1
}

func ExampleLogGauss() {
	verify(score.LogGauss)
	// Output: raw 1.692, normal 1.692 1
}

func ExampleSpreadScore() {
	verify(score.SpreadScore)
	// Output: raw 1.155, normal 1.155 degC
}

func ExampleSpreadSkill() {
	verify(score.SpreadSkill)
	// Output: raw 1.128, normal 0.977 1
}

func ExampleSpreadRMSE() {
	verify(score.SpreadRMSE)
	// Output: raw 0.238, normal 0.238 degC
}

func ExampleRankFlatness() {
	verify(score.RankFlatness)
	// Output: raw 0.625 1
}

func ExamplePITFlatness() {
	verify(score.PITFlatness)
	// Output: normal 1.400, censored 1.600 1
}

func ExampleCoverage50() {
	verify(score.Coverage50)
	// Output: raw 0.750, normal 0.750, censored 0.625 1
}

func ExampleCoverage90() {
	verify(score.Coverage90)
	// Output: raw 0.750, normal 0.875, censored 0.625 1
}

func ExampleIntervalScore90() {
	verify(score.IntervalScore90)
	// Output: raw 7.525, normal 7.111, censored 13.411 degC
}

func ExampleBrier() {
	verify(score.Brier)
	// Output: raw 0.264, normal 0.210, censored 0.210 1
}

func ExampleBrierFair() {
	verify(score.BrierFair)
	// Output: raw 0.208 1
}

func ExampleBrierSkill() {
	verify(score.BrierSkill)
	// Output: raw -0.126, normal 0.103, censored 0.103 1
}

func ExampleBrierReliability() {
	verify(score.BrierReliability)
	// Output: raw 0.097, normal 0.104, censored 0.104 1
}

func ExampleBrierResolution() {
	verify(score.BrierResolution)
	// Output: raw 0.068, normal 0.141, censored 0.141 1
}

func ExampleBrierUncertainty() {
	verify(score.BrierUncertainty)
	// Output: raw 0.234, normal 0.234, censored 0.234 1
}

func ExampleROCArea() {
	verify(score.ROCArea)
	// Output: raw 0.667, normal 0.700, censored 0.700 1
}

func ExampleEconomicValue() {
	verify(score.EconomicValue)
	// Output: raw 0.333, normal 0.667, censored 0.667 1
}

func ExampleRPS() {
	verify(score.RPS)
	// Output: raw 0.347, normal 0.298, censored 0.298 1
}

func ExampleRPSFair() {
	verify(score.RPSFair)
	// Output: raw 0.250 1
}

func ExampleRPSSkill() {
	verify(score.RPSSkill)
	// Output: raw -0.010, normal 0.134, censored 0.134 1
}

func ExampleEnergy() {
	verify(score.Energy)
	// Output: raw 0.785 degC
}

func ExampleEnergyFair() {
	verify(score.EnergyFair)
	// Output: raw 0.523 degC
}

func ExampleVariogram() {
	verify(score.Variogram)
	// Output: raw 0.283 degC
}

func ExampleEnergyTime() {
	verify(score.EnergyTime)
	// Output: raw 0.590 degC
}

func ExampleEnergyTimeFair() {
	verify(score.EnergyTimeFair)
	// Output: raw 0.344 degC
}

func ExampleVariogramTime() {
	verify(score.VariogramTime)
	// Output: raw 0.147 degC
}

func ExampleSpreadSkillBins() {
	draw(score.SpreadSkillBins)
	// Output:
	// spread  rmse  share
	// 1.155  1.310  0.750
	// 1.764  0.667  0.250
}

func ExampleReliabilityDiagram() {
	draw(score.ReliabilityDiagram)
	// Output:
	// probability  frequency  share  base_rate
	// 0.000  0.000  0.125  0.625
	// 0.333  0.667  0.375  0.625
	// 0.667  1.000  0.125  0.625
	// 1.000  0.667  0.375  0.625
}

func ExampleEFI() {
	climate := []float64{-4, -1, 0, 1, 4} // quantiles at 0, 0.25, …, 1, degC
	fmt.Printf("%.3f\n", score.EFI(climate, []float64{1, 2, 3}))
	// Output: 0.430
}

func ExampleEFIENS10() {
	climate := make([]float64, 21) // quantiles at every twentieth
	for k := range climate {
		climate[k] = float64(k - 10)
	}
	fmt.Printf("%.3f\n", score.EFIENS10(climate, []float64{1, 2, 3}))
	// Output: 0.128
}

func ExampleEFIMap() {
	climate := [][]float32{{-2, -2}, {0, 0}, {2, 2}} // [level][point]
	index := make([]float32, 2)
	score.EFIMap(index, climate, [][]float32{{-1, 1}, {1, 3}}, score.EFI)
	fmt.Printf("%.2f\n", index)
	// Output: [0.00 0.68]
}

func ExampleSOT() {
	forecast := 12.0                                 // 0.9 quantile of the members, mm
	fmt.Printf("%.2f\n", score.SOT(forecast, 5, 10)) // 0.9 and 0.99 quantile of the climate
	// Output: 0.40
}

func ExampleEnergyScore() {
	members := [][]float64{{0, 1}, {2, 2}} // [member][dimension]
	fmt.Printf("%.3f %.3f\n", score.EnergyScore(members, []float64{1, 1}, nil, false), score.EnergyScore(members, []float64{1, 1}, nil, true))
	// Output: 0.458 0.063
}

func ExampleVariogramScore() {
	members := [][]float64{{0, 1}, {2, 2}} // [member][dimension]
	fmt.Printf("%.3f\n", score.VariogramScore(members, []float64{1, 5}, nil))
	// Output: 4.500
}

func ExampleTestFlatness() {
	t := score.TestFlatness([]float64{18, 9, 8, 8, 17}) // cases by rank: a U shape
	fmt.Printf("p = %.3f, slope %.3f, convexity %.3f\n", float64(t.P), float64(t.PSlope), float64(t.PConvexity))
	// Output: p = 0.075, slope 0.784, convexity 0.004
}

func ExampleFlatBand() {
	low, high := score.FlatBand(100, 11, 0.95, false) // 100 cases, 11 ranks
	fmt.Printf("%.2f to %.2f\n", low, high)
	// Output: 0.04 to 0.15
}

func ExampleDecompose() {
	table := []float64{ // Σw, Σwp, Σwo of the cases with probability 0.2 and 0.8
		10, 2, 3,
		10, 8, 7,
	}
	d := score.Decompose(table)
	fmt.Printf("reliability %.3f, resolution %.3f, uncertainty %.3f\n", d.Reliability, d.Resolution, d.Uncertainty)
	// Output: reliability 0.010, resolution 0.040, uncertainty 0.250
}

func ExampleLargestPoints() {
	fmt.Println(score.LargestPoints([]float32{0.1, -0.9, 0.5, 0.2}, nil, 0.5))
	// Output: [false true true false]
}

func ExampleClimate() {
	valid := []time.Time{time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC)}
	c := score.Climate{Steps: 2, Windows: 1, Quantiles: make([]float32, 3)}
	c.Fit(0, 1, valid, [][][]float32{{{1}, {3}}, {{2}, {6}}}) // [date][member][point]
	fmt.Println(c.At(valid[0]))
	// Output: [[1] [2.5] [6]]
}

func ExampleParseBox() {
	b, err := score.ParseBox("alps=43:49:5:17")
	fmt.Println(b, err)
	// Output: {alps 43 49 5 17} <nil>
}

// quantileOf prints a score of the quantile of probability 0.9 of a normal distribution, 2 m temperature in °C.
func quantileOf(s *score.Score) {
	target := score.Target{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Lead: ensemble.Lead(48 * time.Hour), Unit: "degC"}
	a, err := score.New(target, score.Grid{Weights: []float64{1, 1}, Name: "equal", NX: 2}, []score.System{{Name: "normal", Provides: score.Mean | score.Spread}},
		score.Options{Scores: []string{s.ID}, Levels: []float64{0.9}})
	if err != nil {
		panic(err)
	}
	for t, obs := range observed {
		mean, spread := make([]float32, 2), make([]float32, 2)
		ensemble.MeanStd(mean, spread, members[t], 1)
		if err := a.Add(ensemble.InitAt(time.Date(2026, 1, 1+t, 0, 0, 0, 0, time.UTC)), score.Reference{Obs: obs}, []score.Sample{{Mean: mean, Spread: spread}}); err != nil {
			panic(err)
		}
	}
	r, err := a.Result(significance.Bootstrap{}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f %s\n", float64(r.Scores[0].Value), s.UnitOf("degC"))
}

func ExampleQuantileScore() {
	quantileOf(score.QuantileScore)
	// Output: 0.186 degC
}

func ExampleQuantileFrequency() {
	quantileOf(score.QuantileFrequency)
	// Output: 1.000 1
}
