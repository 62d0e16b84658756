package device

import (
	"fmt"
	"math"
	"slices"
)

// target is a performance target on a device.
type target struct {
	Name string   `json:"name"`
	Want string   `json:"want"`
	Got  *float64 `json:"got"`
	Met  *bool    `json:"met"` // null: not measured, for the reason given
	Why  string   `json:"why,omitempty"`
	// least or most bounds the value.
	least, most float64
}

// Cases that targets refer to; gpu.sh and gpu_pytorch.py use the same names.
const (
	casePublished = "unet3d-2"  // base 32, 42 channels, 2×352×704, batch 2
	caseLevels    = "unet3d-11" // 11×361×720, two samples
	casePredict   = "predict-2" // 2×361×720
	caseSuite     = "conformance"
)

// Targets as named in the report.
const (
	nameStep     = "training step, 2×352×704, batch 2"
	nameLevels   = "training step, 11×361×720"
	namePredict  = "prediction, 2×361×720"
	nameConv     = "convolution rate relative to matrix product, bf16"
	nameBytes    = "memory of a training step, 2×352×704, batch 2"
	nameBytes11  = "memory of a training step, 11×361×720"
	nameMemory   = "step in half of the memory"
	nameF32      = "output error relative to float64, f32"
	nameBF16     = "output error relative to float64, bf16"
	nameLearn    = "loss after 200 steps, compared with the processor"
	nameSuite    = "conformance suite"
	nameSanitize = "compute-sanitizer"
)

// targetList lists the targets in the order of the report.
var targetList = []target{
	{Name: nameStep, Want: "≥ 1.25 × PyTorch's fastest form", least: 1.25},
	{Name: nameLevels, Want: "≥ 1.25 × PyTorch's fastest form", least: 1.25},
	{Name: namePredict, Want: "≥ 1.5 × PyTorch's fastest form", least: 1.5},
	{Name: nameConv, Want: "≥ 0.5", least: 0.5},
	{Name: nameBytes, Want: "≤ 0.6 of PyTorch's", most: 0.6},
	{Name: nameBytes11, Want: "≤ 0.6 of PyTorch's", most: 0.6},
	{Name: nameMemory, Want: "≤ 1.15 × the time in all of it", most: 1.15},
	{Name: nameF32, Want: "≤ 1e-5", most: 1e-5},
	{Name: nameBF16, Want: "≤ 1e-2", most: 1e-2},
	{Name: nameLearn, Want: "within its spread over seeds", most: 1},
	{Name: nameSuite, Want: "no failure on the device"},
	{Name: nameSanitize, Want: "no error"},
}

// targets evaluates the results; targets without a result have a reason.
func targets(lines []answerLine, all []ratio) []target {
	out := slices.Clone(targetList)
	// found stores a result; a non-empty why states which condition of the target it does not meet.
	found := func(name string, got float64, why string) {
		t := &out[slices.IndexFunc(out, func(t target) bool { return t.Name == name })]
		met := why == "" && got >= t.least && (t.least > 0 || got <= t.most)
		t.Got, t.Met, t.Why = &got, &met, why
	}
	for _, r := range all {
		if r.Precision != "bf16" {
			continue
		}
		switch {
		case r.Case == casePublished && r.What == stepTime:
			found(nameStep, r.Ratio, "")
		case r.Case == caseLevels && r.What == stepTime:
			found(nameLevels, r.Ratio, "")
		case r.Case == casePredict && r.What == predictTime:
			found(namePredict, r.Ratio, "")
		case r.Case == casePublished && r.What == inBytes[stepTime]:
			found(nameBytes, 1/r.Ratio, "")
		case r.Case == caseLevels && r.What == inBytes[stepTime]:
			found(nameBytes11, 1/r.Ratio, "")
		}
	}
	if share := convolutions(lines); share > 0 {
		found(nameConv, share, "")
	}
	for _, l := range lines {
		switch {
		case l.Share > 0 && l.Ratio > 0:
			why := ""
			if l.Share > 0.5 {
				why = fmt.Sprintf("with %g of the memory: no plan needs less", l.Share)
			}
			found(nameMemory, l.Ratio, why)
		case l.Output != nil && l.Precision == "f32":
			found(nameF32, *l.Output, "")
		case l.Output != nil && l.Precision == "bf16":
			found(nameBF16, *l.Output, "")
		case l.Within != nil:
			// Difference of the means in units of the spread.
			found(nameLearn, math.Abs(l.Difference)/max(l.Spread, math.SmallestNonzeroFloat64), "")
		case l.Complete != nil && l.Case == caseSuite:
			why := ""
			switch {
			case l.Emulated:
				why = "the suite found no GPU and was emulated"
			case !*l.Complete:
				why = "the suite did not finish"
			}
			found(nameSuite, float64(l.Failed), why)
		case l.Errors != nil:
			found(nameSanitize, float64(*l.Errors), "")
		}
	}
	for i := range out {
		if out[i].Got == nil {
			out[i].Why = "no result"
		}
	}
	return out
}

// convolutions is the rate of useful work in the convolutions of the published case relative to the best
// matrix product in the same run, of either program; 0 without both.
func convolutions(lines []answerLine) float64 {
	var conv, peak float64
	for _, l := range lines {
		peak = max(peak, l.BF16)
		if l.Case == casePublished && l.Precision == "bf16" && l.Peer == "" {
			conv = max(conv, l.Conv)
		}
	}
	if peak == 0 {
		return 0
	}
	return conv / peak
}
