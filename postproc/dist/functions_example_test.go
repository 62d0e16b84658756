package dist_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

func ExampleBernsteinCDF() {
	fmt.Printf("%.3f\n", dist.BernsteinCDF([]float64{270, 272, 276}, 273.0)) // K: coefficients, which are quantiles at 0 and 1
	// Output: 0.581
}

func ExampleBernsteinQuantile() {
	fmt.Printf("%.3f\n", dist.BernsteinQuantile([]float64{270, 272, 276}, 0.5)) // K: coefficients, which are quantiles at 0 and 1
	// Output: 272.500
}

func ExampleCSGammaCDF() {
	fmt.Printf("%.3f\n", dist.CSGammaCDF(2.0, 3.0, 1.5, 5.0)) // mm: shape, scale, shift
	// Output: 0.637
}

func ExampleCSGammaQuantile() {
	fmt.Printf("%.3f\n", dist.CSGammaQuantile(2.0, 3.0, 1.5, 0.9)) // mm: shape, scale, shift
	// Output: 10.169
}

func ExampleCensoredLogisticCDF() {
	fmt.Printf("%.3f\n", dist.CensoredLogisticCDF(1.0, 2.0, 3.0)) // mm: location and scale before censoring at 0
	// Output: 0.731
}

func ExampleCensoredLogisticQuantile() {
	fmt.Printf("%.3f\n", dist.CensoredLogisticQuantile(1.0, 2.0, 0.9)) // mm: location and scale before censoring at 0
	// Output: 5.394
}

func ExampleCensoredNormalCDF() {
	fmt.Printf("%.3f\n", dist.CensoredNormalCDF(1.0, 3.0, 2.5)) // mm: location and scale before censoring at 0
	// Output: 0.691
}

func ExampleCensoredNormalQuantile() {
	fmt.Printf("%.3f\n", dist.CensoredNormalQuantile(1.0, 3.0, 0.9)) // mm: location and scale before censoring at 0
	// Output: 4.845
}

func ExampleHistogramCDF() {
	fmt.Printf("%.3f\n", dist.HistogramCDF([]float64{0, 1, 5, 20}, []float64{0.5, 0.3, 0.2}, 3.0)) // mm: edges and probabilities of bins
	// Output: 0.650
}

func ExampleHistogramQuantile() {
	fmt.Printf("%.3f\n", dist.HistogramQuantile([]float64{0, 1, 5, 20}, []float64{0.5, 0.3, 0.2}, 0.9)) // mm: edges and probabilities of bins
	// Output: 12.500
}

func ExampleLogNormalCDF() {
	fmt.Printf("%.3f\n", dist.LogNormalCDF(1.0, 0.5, 4.0)) // mean and standard deviation of the logarithm
	// Output: 0.780
}

func ExampleLogNormalQuantile() {
	fmt.Printf("%.3f\n", dist.LogNormalQuantile(1.0, 0.5, 0.9)) // mean and standard deviation of the logarithm
	// Output: 5.159
}

func ExampleLogisticCDF() {
	fmt.Printf("%.3f\n", dist.LogisticCDF(1.0)) // in units of the scale, from the location
	// Output: 0.731
}

func ExampleLogisticQuantile() {
	fmt.Printf("%.3f\n", dist.LogisticQuantile(0.9)) // in units of the scale, from the location
	// Output: 2.197
}

func ExampleNormalCDF() {
	fmt.Printf("%.3f\n", dist.NormalCDF(1.0)) // in units of the standard deviation, from the mean
	// Output: 0.841
}

func ExampleNormalQuantile() {
	fmt.Printf("%.3f\n", dist.NormalQuantile(0.9)) // in units of the standard deviation, from the mean
	// Output: 1.282
}

func ExampleStudentCDF() {
	fmt.Printf("%.3f\n", dist.StudentCDF(5.0, 1.0)) // degrees of freedom; in units of the scale
	// Output: 0.818
}

func ExampleStudentQuantile() {
	fmt.Printf("%.3f\n", dist.StudentQuantile(5.0, 0.9)) // degrees of freedom; in units of the scale
	// Output: 1.476
}

func ExampleTruncatedLogisticCDF() {
	fmt.Printf("%.3f\n", dist.TruncatedLogisticCDF(4.0, 2.0, 7.0)) // m s-1: location and scale before truncation at 0
	// Output: 0.793
}

func ExampleTruncatedLogisticQuantile() {
	fmt.Printf("%.3f\n", dist.TruncatedLogisticQuantile(4.0, 2.0, 0.9)) // m s-1: location and scale before truncation at 0
	// Output: 8.675
}

func ExampleTruncatedNormalCDF() {
	fmt.Printf("%.3f\n", dist.TruncatedNormalCDF(4.0, 3.0, 7.0)) // m s-1: location and scale before truncation at 0
	// Output: 0.825
}

func ExampleTruncatedNormalQuantile() {
	fmt.Printf("%.3f\n", dist.TruncatedNormalQuantile(4.0, 3.0, 0.9)) // m s-1: location and scale before truncation at 0
	// Output: 8.006
}

func ExampleZeroNormalCDF() {
	fmt.Printf("%.3f\n", dist.ZeroNormalCDF(0.4, 2.0, 3.0, 5.0)) // probability of 0; mm: location and scale of the truncated normal part
	// Output: 0.873
}

func ExampleZeroNormalQuantile() {
	fmt.Printf("%.3f\n", dist.ZeroNormalQuantile(0.4, 2.0, 3.0, 0.9)) // probability of 0; mm: location and scale of the truncated normal part
	// Output: 5.457
}

func ExampleNormalPDF() {
	fmt.Printf("%.3f\n", dist.NormalPDF(1))
	// Output: 0.242
}

func ExampleHistogramMoments() {
	mean, std := dist.HistogramMoments([]float64{0, 1, 5, 20}, []float64{0.5, 0.3, 0.2}) // mm
	fmt.Printf("%.2f %.2f\n", mean, std)
	// Output: 3.65 4.99
}

func ExamplePlain() {
	fmt.Printf("%.3f\n", dist.KernelCRPS([]float64{271, 273, 275}, 274, dist.Plain)) // K
	// Output: 0.778
}

func ExampleFair() {
	fmt.Printf("%.3f\n", dist.KernelCRPS([]float64{271, 273, 275}, 274, dist.Fair)) // K
	// Output: 0.333
}

func ExampleAlmostFair() {
	fmt.Printf("%.3f\n", dist.KernelCRPS([]float64{271, 273, 275}, 274, dist.AlmostFair(0.95))) // K
	// Output: 0.356
}

func ExampleStudentStd() {
	fmt.Printf("%.3f\n", dist.StudentStd(5)) // in units of the scale
	// Output: 1.291
}

func ExamplePinballSlope() {
	fmt.Printf("%.1f %.1f\n", dist.PinballSlope(272, 274, 0.9), dist.PinballSlope(276, 274, 0.9)) // forecasts below and above the observation
	// Output: -0.9 0.1
}

func ExampleCensoredBernsteinCRPS() {
	fmt.Printf("%.3f\n", dist.CensoredBernsteinCRPS(make([]float64, 3), []float64{-1, 2, 6}, 3)) // mm
	// Output: 0.654
}

func ExampleNormalCRPSCurvature() {
	grad := make([]float64, 2)
	dist.Normal.CRPS(grad, []float64{273, 2}, 276) // K
	fmt.Printf("%.3f\n", dist.NormalCRPSCurvature(grad[1], 2))
	// Output: 0.130
}

func ExampleRowByID() {
	row, ok := dist.RowByID("normal")
	fmt.Println(row.ID, ok)
	// Output: normal true
}

func ExampleEmpiricalQuantile() {
	fmt.Println(dist.EmpiricalQuantile([]float64{270, 272, 276}, 0.75)) // K: members, ascending
	// Output: 274
}
