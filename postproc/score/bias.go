package score

// Bias is the mean of forecast minus observation:
//
//	< m − y >
//
// Unit: that of the variable. Better: near 0. Local biases of opposite sign cancel.
// Source: Wilks 2019, ch. 9.
var Bias = &Score{
	ID: "bias", Name: "bias", Formula: "<m-y>",
	Doc:    "Mean of forecast minus reference over the whole area; regional biases of both signs cancel.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   SameAsVariable, Better: Zero, Needs: Mean, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.Mean - c.Obs },
	Value: firstMean,
}
