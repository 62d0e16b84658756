//go:build long && cgo && linux

package cudnn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/cudnn/cudnntest"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
)

// real opens NVIDIA's library, on a machine that need not have a driver.
func real(t *testing.T) *Library {
	t.Helper()
	librariestest.Includes(t, "cudnn.h")
	librariestest.Driver(t)
	l, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Prototypes and values are those of the headers.
func TestLongHeaders(t *testing.T) { librariestest.Headers(t, "cudnn.h") }

// Without a device the handle is refused with cuDNN's own words.
func TestLongNoDevice(t *testing.T) {
	l := real(t)
	if !strings.HasPrefix(l.Version(), "9.") {
		t.Errorf("version %q", l.Version())
	}
	_, err := l.New(nil)
	var e *CallError
	if !errors.As(err, &e) || e.Status != 1001 || e.Call != "cudnnCreate" || !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want cudnnCreate to answer 1001", err)
	}
}

// For described devices cuDNN finds plans for every kind of convolution of a network,
// down to compiled kernels: all that cuDNN checks before it needs the device.
func TestLongPlans(t *testing.T) {
	l := real(t)
	for name, description := range cudnntest.DeviceDescriptions {
		t.Run(name, func(t *testing.T) { plansOf(t, l, name, description) })
	}
	if _, err := l.NewFromDescription(`{"deviceVer":900}`); err == nil || !strings.Contains(err.Error(), "maxGridSize") {
		t.Errorf("a description without most of it: got %v", err)
	}
}

func plansOf(t *testing.T, l *Library, name, description string) {
	h, err := l.NewFromDescription(description)
	if err != nil {
		t.Fatal(err)
	}
	base := Convolution{N: 1, In: 32, Out: 64, Size: [3]int{8, 90, 182}, Filter: [3]int{3, 3, 3}, Pad: [3]int{1, 1, 0}, Type: BFloat16}
	for _, test := range []struct {
		name  string
		set   func(*Convolution)
		fused bool // a fused plan must be there
	}{
		{"forward", func(c *Convolution) {}, false},
		{"bias", func(c *Convolution) { c.Bias = true }, true},
		{"bias, ReLU", func(c *Convolution) { c.Bias, c.ReLU = true, true }, true},
		{"wide bias", func(c *Convolution) { c.Bias, c.BiasFloat32 = true, true }, true},
		{"wide bias, ReLU", func(c *Convolution) { c.Bias, c.BiasFloat32, c.ReLU = true, true, true }, true},
		{"ReLU", func(c *Convolution) { c.ReLU = true }, true},
		{"data", func(c *Convolution) { c.Pass = DataGrad }, false},
		{"filter", func(c *Convolution) { c.Pass = FilterGrad }, false},
		{"wide filter", func(c *Convolution) { c.Pass, c.FilterGradFloat32 = FilterGrad, true }, false},
		{"add to filter", func(c *Convolution) { c.Pass, c.Add = FilterGrad, true }, false},
		{"add to data", func(c *Convolution) { c.Pass, c.Add = DataGrad, true }, false},
		{"float16", func(c *Convolution) { c.Type, c.Bias = Float16, true }, true},
		{"float32", func(c *Convolution) { c.Type = Float32 }, false},
		{"float32, bias, ReLU", func(c *Convolution) { c.Type, c.Bias, c.ReLU = Float32, true, true }, true},
		{"float32 data", func(c *Convolution) { c.Type, c.Pass = Float32, DataGrad }, false},
		{"float32 filter", func(c *Convolution) { c.Type, c.Pass = Float32, FilterGrad }, false},
		{"TF32", func(c *Convolution) { c.Type, c.TF32 = Float32, true }, false},
		{"TF32 data", func(c *Convolution) { c.Type, c.TF32, c.Pass = Float32, true, DataGrad }, false},
		{"TF32 filter", func(c *Convolution) { c.Type, c.TF32, c.Pass = Float32, true, FilterGrad }, false},
		{"stride", func(c *Convolution) { c.Stride = [3]int{1, 2, 2} }, false},
		{"data of stride", func(c *Convolution) { c.Stride, c.Pass = [3]int{1, 2, 2}, DataGrad }, false},
		{"dilation", func(c *Convolution) { c.Dilation = [3]int{1, 2, 2} }, false},
		{"one cell", func(c *Convolution) { c.Filter, c.Pad = [3]int{1, 1, 1}, [3]int{} }, false},
		{"two dimensions", func(c *Convolution) { c.Size[0], c.Filter[0], c.Pad[0] = 1, 1, 0 }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := base
			test.set(&c)
			plans, err := h.Plans(c, Limits{Workspace: 1 << 30, MaxPlans: 3})
			if name == "V100" && c.Type == BFloat16 || name == "A100" && c.FilterGradFloat32 { // what cuDNN 9.28 has no engines for
				if !errors.Is(err, ErrUnsupported) {
					t.Errorf("got %v, want ErrUnsupported", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.fused != plans[0].Fused() {
				t.Errorf("the first plan is fused: %v, want %v", plans[0].Fused(), test.fused)
			}
			for _, p := range plans {
				t.Logf("%s: %d bytes, %s", p.Name(), p.Workspace(), strings.Join(p.Notes(), ", "))
				if c.Type == Float32 && !c.TF32 && slices.Contains(p.Notes(), "tensor cores") {
					t.Errorf("%s rounds float32", p.Name())
				}
				again, err := h.Plan(c, p.Name())
				if err != nil {
					t.Fatal(err)
				}
				if again.Workspace() != p.Workspace() || again.Name() != p.Name() {
					t.Errorf("%s again: %s with %d bytes of workspace, before %d", p.Name(), again.Name(), again.Workspace(), p.Workspace())
				}
				if err := errors.Join(again.Close(), p.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
