package dist_test

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// describe prints mean, standard deviation, quartiles, and the CRPS for an observation with its
// gradient, of a distribution of a family.
func describe(f *dist.Family, par []float64, y float64) {
	mean, std := f.Moments(par)
	fmt.Printf("mean %.2f, std %.2f, quartiles %.2f to %.2f\n", mean, std, f.Quantile(par, 0.25), f.Quantile(par, 0.75))
	grad := make([]float64, len(par))
	fmt.Printf("CRPS %.3f, gradient %.3f\n", f.CRPS(grad, par, y), grad)
}

func ExampleNormal() {
	describe(dist.Normal, []float64{273, 2}, 276) // K: location, scale
	// Output:
	// mean 273.00, std 2.00, quartiles 271.65 to 274.35
	// CRPS 1.989, gradient [-0.866 -0.305]
}

func ExampleLogistic() {
	describe(dist.Logistic, []float64{273, 2}, 276) // K: location, scale
	// Output:
	// mean 273.00, std 3.63, quartiles 270.80 to 275.20
	// CRPS 1.806, gradient [-0.635 -0.050]
}

func ExampleStudent() {
	describe(dist.Student, []float64{273, 2, 5}, 276) // K: location, scale; degrees of freedom
	// Output:
	// mean 273.00, std 2.58, quartiles 271.55 to 274.45
	// CRPS 1.937, gradient [-0.806 -0.241 0.008]
}

func ExampleTruncatedNormal() {
	describe(dist.TruncatedNormal, []float64{4, 3}, 7) // m s-1: location and scale of the parent
	// Output:
	// mean 4.54, std 2.56, quartiles 2.58 to 6.24
	// CRPS 1.562, gradient [-0.510 -0.318]
}

func ExampleTruncatedLogistic() {
	describe(dist.TruncatedLogistic, []float64{4, 2}, 7) // m s-1: location and scale of the parent
	// Output:
	// mean 4.83, std 2.93, quartiles 2.67 to 6.53
	// CRPS 1.468, gradient [-0.448 -0.421]
}

func ExampleCensoredNormal() {
	describe(dist.CensoredNormal, []float64{1, 3}, 2.5) // mm: location and scale of the parent
	// Output:
	// mean 1.76, std 2.08, quartiles 0.00 to 3.02
	// CRPS 0.834, gradient [-0.246 0.041]
}

func ExampleCensoredLogistic() {
	describe(dist.CensoredLogistic, []float64{1, 2}, 2.5) // mm: location and scale of the parent
	// Output:
	// mean 1.95, std 2.47, quartiles 0.00 to 3.20
	// CRPS 0.854, gradient [-0.216 0.087]
}

func ExampleLogNormal() {
	describe(dist.LogNormal, []float64{1.5, 0.4}, 7) // of the logarithm of a wind speed in m s-1
	// Output:
	// mean 4.85, std 2.02, quartiles 3.42 to 5.87
	// CRPS 1.514, gradient [-3.631 -1.084]
}

func ExampleZeroNormal() {
	describe(dist.ZeroNormal, []float64{0.3, 2, 1}, 2.5) // probability of 0; mm: location and scale of the parent
	// Output:
	// mean 1.44, std 1.23, quartiles 0.00 to 2.39
	// CRPS 0.651, gradient [1.576 -0.407 0.070]
}

func ExampleCSGamma() {
	describe(dist.CSGamma, []float64{0.6, 2, 0.4}, 1.7) // shape; mm: scale, shift
	// Output:
	// mean 0.90, std 1.48, quartiles 0.00 to 1.23
	// CRPS 0.784, gradient [-1.092 -0.238 0.473]
}

func ExampleBernstein() {
	describe(dist.Bernstein(3), []float64{270, 272, 274, 277}, 276) // K: coefficients
	// Output:
	// mean 273.25, std 2.00, quartiles 271.52 to 274.92
	// CRPS 1.714, gradient [-0.100 -0.197 -0.266 -0.206]
}

func ExampleCensoredBernstein() {
	describe(dist.CensoredBernstein(3), []float64{-2, 0, 1, 4}, 2.5) // mm: coefficients
	// Output:
	// mean 1.12, std 1.25, quartiles 0.00 to 2.08
	// CRPS 0.980, gradient [-0.037 -0.133 -0.197 -0.114]
}

func ExampleHistogram() {
	f, par := dist.Histogram(3), []float64{270, 272, 274, 278, 0.2, 0.5, 0.3} // K: edges; probabilities
	mean, std := f.Moments(par)
	fmt.Printf("mean %.2f, std %.2f, CRPS %.3f\n", mean, std, f.CRPS(nil, par, 276))
	// Output: mean 273.50, std 1.97, CRPS 1.693
}

func ExampleHistogramCRPS() {
	edges, p := []float64{270, 272, 274, 278}, []float64{0.2, 0.5, 0.3} // K
	dp := make([]float64, 3)
	fmt.Printf("%.3f K, %.2f\n", dist.HistogramCRPS(dp, edges, p, 276), dp)
	// Output: 1.693 K, [5.17 4.17 0.90]
}

func ExampleHistogramCrossEntropy() {
	logits, dx := []float64{0, 1, 0.5}, make([]float64, 3)
	fmt.Printf("%.3f, %.3f\n", dist.HistogramCrossEntropy(dx, logits, 1), dx)
	// Output: 0.680, [0.186 -0.494 0.307]
}

func ExampleAverageHistograms() {
	edges, p := dist.AverageHistograms([]float64{0, 1, 2}, [][]float64{{0.5, 0.5}, {0.25, 0.75}})
	fmt.Printf("%.3f %.3f\n", edges, p)
	// Output: [0.000 0.750 1.167 2.000] [0.250 0.250 0.500]
}

func ExampleAverageCSGamma() {
	fmt.Printf("%.3f\n", dist.AverageCSGamma([][]float64{{0.6, 2, 0.4}, {3, 0.5, 0.2}})) // shape, scale, shift
	// Output: [1.250 1.080 0.300]
}

func ExampleBernsteinCRPS() {
	da := make([]float64, 4)
	fmt.Printf("%.3f K, %.3f\n", dist.BernsteinCRPS(da, []float64{270, 272, 274, 277}, 276), da)
	// Output: 1.714 K, [-0.100 -0.197 -0.266 -0.206]
}

func ExampleBernsteinPinball() {
	loss := dist.BernsteinPinball(3, 99, false)
	fmt.Printf("%.3f K\n", loss(nil, []float64{270, 272, 274, 277}, 276))
	// Output: 1.731 K
}

func ExamplePinball() {
	fmt.Printf("%.2f %.2f\n", dist.Pinball(271, 273, 0.9), dist.Pinball(275, 273, 0.9)) // of the 0.9 quantile
	// Output: 1.80 0.20
}

func ExampleLogisticCRPS() {
	crps, dmu, ds := dist.LogisticCRPS(273, 2, 276)
	fmt.Printf("%.3f K, %.3f, %.3f\n", crps, dmu, ds)
	// Output: 1.806 K, -0.635, -0.050
}

func ExampleTruncatedLogisticCRPS() {
	crps, dmu, ds := dist.TruncatedLogisticCRPS(4, 2, 7)
	fmt.Printf("%.3f m s-1, %.3f, %.3f\n", crps, dmu, ds)
	// Output: 1.468 m s-1, -0.448, -0.421
}

func ExampleCensoredLogisticCRPS() {
	crps, dmu, ds := dist.CensoredLogisticCRPS(1, 2, 2.5)
	fmt.Printf("%.3f mm, %.3f, %.3f\n", crps, dmu, ds)
	// Output: 0.854 mm, -0.216, 0.087
}

func ExampleCensoredNormalCRPS() {
	crps, dmu, dsigma := dist.CensoredNormalCRPS(1, 3, 2.5)
	fmt.Printf("%.3f mm, %.3f, %.3f\n", crps, dmu, dsigma)
	// Output: 0.834 mm, -0.246, 0.041
}

func ExampleLogNormalCRPS() {
	crps, dmu, dsigma := dist.LogNormalCRPS(1.5, 0.4, 7)
	fmt.Printf("%.3f m s-1, %.3f, %.3f\n", crps, dmu, dsigma)
	// Output: 1.514 m s-1, -3.631, -1.084
}

func ExampleZeroNormalCRPS() {
	crps, dp, dmu, dsigma := dist.ZeroNormalCRPS(0.3, 2, 1, 2.5)
	fmt.Printf("%.3f mm, %.3f, %.3f, %.3f\n", crps, dp, dmu, dsigma)
	// Output: 0.651 mm, 1.576, -0.407, 0.070
}

func ExampleStudentCRPS() {
	crps, dmu, dsigma := dist.StudentCRPS(273, 2, 5, 276)
	fmt.Printf("%.3f K, %.3f, %.3f\n", crps, dmu, dsigma)
	// Output: 1.937 K, -0.806, -0.241
}

func ExampleNormalCramer() {
	d, dmu, dsigma := dist.NormalCramer(273, 2, 274, 1.5)
	fmt.Printf("%.3f K, %.3f, %.3f\n", d, dmu, dsigma)
	// Output: 0.178 K, -0.311, 0.025
}

func ExampleKernelCRPSGrad() {
	members, gradient := []float64{271, 273, 275}, make([]float64, 3) // K
	crps := dist.KernelCRPSGrad(gradient, members, 274, dist.AlmostFair(0.95))
	fmt.Printf("%.3f K, %.3f\n", crps, gradient)
	// Output: 0.356 K, [-0.006 -0.333 0.006]
}

func ExampleHalfMeanDifference() {
	fmt.Printf("%.3f K\n", dist.HalfMeanDifference([]float64{271, 273, 275}))
	// Output: 1.333 K
}

func ExampleFamily_CRPSAbove() {
	par := []float64{273, 2}                                          // K
	fmt.Printf("%.3f K\n", dist.Normal.CRPSAbove(nil, par, 275, 276)) // weight 1 above 275 K
	// Output: 0.798 K
}

func ExampleFamily_SetMoments() {
	par := make([]float64, 2)
	dist.TruncatedNormal.SetMoments(par, 4, 2) // m s-1
	fmt.Printf("location %.3f, scale %.3f\n", par[0], par[1])
	// Output: location 3.795, scale 2.196
}

func ExampleLogNormalFromMoments() {
	mu, sigma := dist.LogNormalFromMoments(4, 2) // m s-1
	fmt.Printf("%.3f %.3f\n", mu, sigma)
	// Output: 1.275 0.472
}

func ExampleFamilyByID() {
	f := dist.FamilyByID("logistic", 2)
	fmt.Println(f.Name, f.Parameters)
	// Output: logistic [mu sigma]
}
