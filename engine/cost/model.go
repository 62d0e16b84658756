package cost

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// Model predicts times of operations.
type Model struct {
	// Kinds are the coefficients of each kind of operation, and under the name of a class those of its kinds together, for operations
	// without races.
	Kinds map[string]Coefficients `json:"kinds"`
	// Band is the error of whole steps on setups that the fit did not see.
	Band Band `json:"band"`
}

// Coefficients are factors of the features, in their order.
type Coefficients [features]float64

// Band are quantiles of |predicted/measured − 1| over steps.
type Band struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Steps  int     `json:"steps"` // number of measured steps
}

//go:embed coefficients.json
var fittedText []byte

// Fitted returns the model of this program, fitted to races.json.
var Fitted = sync.OnceValue(func() *Model {
	var m Model
	if err := json.Unmarshal(fittedText, &m); err != nil {
		panic(fmt.Sprintf("cost: coefficients.json: %v", err)) // a test compares it with the fit
	}
	return &m
})

// classOf is the class in the name of a kind.
func classOf(kind string) string {
	class, _, _ := strings.Cut(kind, "/")
	return class
}

// Time predicts the time of an operation in a step with values of some bytes. known is false if the kind has no coefficients, so that
// those of its class count.
//
// Unit: seconds.
func (m *Model) Time(s Setup, w Work, values int64) (t float64, known bool) {
	c, known := m.Kinds[w.Kind]
	if !known {
		c = m.Kinds[classOf(w.Kind)]
	}
	x := s.Features(w.Amounts, values)
	return dot(c[:], x[:]), known
}

// Prediction is the predicted time of a step.
type Prediction struct {
	Seconds float64            `json:"seconds"`
	Classes map[string]float64 `json:"classes"` // seconds by class of operations
	// Unknown is the share of the time in operations whose kind was not measured.
	Unknown float64 `json:"unknown"`
}

// Predict predicts the time of a step as the sum over its operations.
func (m *Model) Predict(s Setup, step Step) Prediction {
	p := Prediction{Classes: map[string]float64{}}
	unknown := 0.0
	for _, w := range step.Ops {
		t, known := m.Time(s, w, step.Values)
		p.Seconds += t
		p.Classes[classOf(w.Kind)] += t
		if !known {
			unknown += t
		}
	}
	if p.Seconds > 0 {
		p.Unknown = unknown / p.Seconds
	}
	return p
}

// Interval returns the times between which 95 % of steps lie that are predicted to take p.
//
//	p/(1 + e) … p/(1 − e)
//
// with e = P95, the quantile of |predicted/measured − 1|. It has no upper end if e is 1 or more: 0.
func (b Band) Interval(p float64) (low, high float64) {
	if b.P95 < 1 {
		high = p / (1 - b.P95)
	}
	return p / (1 + b.P95), high
}
