package main

import (
	"cmp"
	"fmt"
)

// target is what the engine is to reach on a device.
type target struct {
	Name string   `json:"name"`
	Want string   `json:"want"`
	Got  *float64 `json:"got"`
	Met  *bool    `json:"met"` // null: not measured, for the reason given
	Why  string   `json:"why,omitempty"`
}

// Names of the cases that targets speak of; gpu.sh and gpu_pytorch.py use them too.
const (
	casePublished = "unet3d-2"  // base 32, 42 channels, 2×352×704, batch 2
	caseLevels    = "unet3d-11" // 11×361×720, the largest batch that fits the peer
	casePredict   = "predict-2" // 2×361×720
)

// targets judges what was measured.
func targets(lines []line, all []ratio) []target {
	var out []target
	judge := func(name, want string, got *float64, met bool, why string) {
		t := target{Name: name, Want: want, Got: got, Why: why}
		if got != nil {
			t.Met = &met
		} else {
			t.Why = cmp.Or(why, "no result")
		}
		out = append(out, t)
	}
	find := func(name, what string) *float64 {
		for i, r := range all {
			if r.Case == name && r.What == what && r.Precision == "bf16" {
				return &all[i].Ratio
			}
		}
		return nil
	}
	const ofPeer = "a ratio to PyTorch needs both in one run"
	for _, t := range []struct {
		name, of, what string
		least          float64
	}{
		{"training step, 2×352×704, batch 2", casePublished, stepTime, 1.25},
		{"training step, 11×361×720", caseLevels, stepTime, 1.25},
		{"prediction, 2×361×720", casePredict, predictTime, 1.5},
	} {
		got := find(t.of, t.what)
		why := ""
		if got == nil {
			why = ofPeer
		}
		judge(t.name, fmt.Sprintf("≥ %g × PyTorch's fastest form", t.least), got, got != nil && *got >= t.least, why)
	}
	for _, name := range []string{casePublished, caseLevels} {
		const most = 0.6
		got, why := find(name, inBytes[stepTime]), ofPeer
		if got != nil {
			share := 1 / *got
			got, why = &share, ""
		}
		judge("memory of the device, "+name, fmt.Sprintf("≤ %g of PyTorch's", most), got, got != nil && *got <= most, why)
	}
	judge(convolutions(lines))
	for _, l := range lines {
		switch {
		case l.Share == 0.5 && l.Ratio > 0:
			judge("a sample of twice the memory", "≤ 1.15 × the time in all of it", &l.Ratio, l.Ratio <= 1.15, "")
		case l.Output != nil:
			most := map[string]float64{"f32": 1e-5, "bf16": 1e-2}[l.Precision]
			judge("output beside the reference, "+l.Precision, fmt.Sprintf("≤ %g", most), l.Output, *l.Output <= most, "")
		case l.Within != nil:
			judge("200 steps reach the processor's loss, "+l.Precision, "within its spread over seeds", number(*l.Within), *l.Within, "")
		case l.part == "conformance" && l.Complete != nil:
			failed, why := float64(l.Failed), ""
			switch {
			case l.Emulated:
				why = "the suite found no GPU and was emulated"
			case !*l.Complete:
				why = "the suite did not end"
			}
			judge("conformance suite", "no failure on the device", &failed, *l.Complete && l.Failed == 0 && l.Passed > 0 && !l.Emulated, why)
		case l.Errors != nil:
			errors := float64(*l.Errors)
			judge("compute-sanitizer", "no error", &errors, *l.Errors == 0, "")
		}
	}
	for _, name := range []string{"a sample of twice the memory", "output beside the reference, f32", "output beside the reference, bf16",
		"200 steps reach the processor's loss, bf16", "conformance suite", "compute-sanitizer"} {
		missing := true
		for _, t := range out {
			missing = missing && t.Name != name
		}
		if missing {
			judge(name, "", nil, false, "")
		}
	}
	return out
}

// convolutions is the rate of useful work in the convolutions of the published case over
// the best rate of a matrix product in the same run, whoever multiplied.
func convolutions(lines []line) (name, want string, got *float64, met bool, why string) {
	const least = 0.5
	name, want = "convolutions over the matrix product's rate, bf16", fmt.Sprintf("≥ %g", least)
	var conv, peak float64
	for _, l := range lines {
		peak = max(peak, l.BF16)
		if l.Case == casePublished && l.Precision == "bf16" && l.Peer == "" {
			conv = max(conv, l.Conv)
		}
	}
	if conv == 0 || peak == 0 {
		return name, want, nil, false, "needs a step by kernels and a matrix product"
	}
	share := conv / peak
	return name, want, &share, share >= least, ""
}

// number is 1 for true.
func number(b bool) *float64 {
	var x float64
	if b {
		x = 1
	}
	return &x
}
