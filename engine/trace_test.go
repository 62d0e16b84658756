package engine_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
)

// TestTimeline verifies that kernels follow each other without overlap, that
// gradients of convolutions are marked as backward, that the work adds up to
// that of the plan, and that layers are named.
func TestTimeline(t *testing.T) {
	for _, backend := range available(t) {
		p := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: backend}, Debug: engine.Debug{Profile: true}})
		if len(p.Timeline(engine.Peaks{})) != 0 {
			t.Errorf("%s: a timeline before the first run", backend)
		}
		train(t, p, 2)
		p.ResetTimes()
		for _, m := range p.Movement(engine.Peaks{}) {
			if m.MeasuredS != 0 {
				t.Errorf("%s: %s keeps %g s after a reset", backend, m.Op, m.MeasuredS)
			}
		}
		train(t, p, 1)
		var flops int64
		seen := map[string]bool{}
		line := p.Timeline(engine.Peaks{})
		for i, k := range line {
			flops += k.FLOPs
			seen[k.Op+" "+k.Layer] = true
			if k.Start < 0 || k.Duration < 0 || i > 0 && k.Start < line[i-1].Start+line[i-1].Duration {
				t.Errorf("%s: kernel %d, %s, runs from %v for %v, the one before from %v for %v",
					backend, i, k.Op, k.Start, k.Duration, line[max(i, 1)-1].Start, line[max(i, 1)-1].Duration)
			}
			if want := strings.Contains(k.Op, "_grad"); strings.HasPrefix(k.Op, "conv3d") && k.Backward != want {
				t.Errorf("%s: kernel %d, %s, counts as backward: %v", backend, i, k.Op, k.Backward)
			}
			if math.Abs(k.MeasuredS-k.Duration.Seconds()) > 1e-12 { // one run since ResetTimes
				t.Errorf("%s: kernel %d, %s, has a mean of %g s after one run of %v", backend, i, k.Op, k.MeasuredS, k.Duration)
			}
			if k.Bytes < 0 || k.FLOPs < 0 || k.Kernel == "" || len(k.Shape) > 5 {
				t.Errorf("%s: kernel %d is %+v", backend, i, k)
			}
		}
		if flops != p.FLOPs() || flops == 0 {
			t.Errorf("%s: %d FLOPs in the timeline, %d in the plan", backend, flops, p.FLOPs())
		}
		for _, want := range []string{"conv3d_fused enc0.weight", "conv3d_grad_filter enc1.weight", "conv3d_fused_grad_data dec0.weight"} {
			if !seen[want] {
				t.Errorf("%s: no kernel %q among %v", backend, want, seen)
			}
		}
	}
	p := compile(t, unet(t, 2, 1), engine.Options{Device: engine.Device{Backend: "ref"}})
	if err := p.Run(context.Background(), 0); err != nil || p.Timeline(engine.Peaks{}) != nil {
		t.Errorf("without Profile: error %v, a timeline of %d", err, len(p.Timeline(engine.Peaks{})))
	}
}
