package cudnn

import (
	"slices"
	"strings"
	"testing"
)

// The size of the result, by the formula and by counting the places where a filter fits.
func TestResult(t *testing.T) {
	for size := 1; size < 12; size++ {
		for filter := 1; filter < 5; filter++ {
			for stride := 1; stride < 4; stride++ {
				for dilation := 1; dilation < 4; dilation++ {
					for pad := range 3 {
						c := Convolution{Size: [3]int{size, 1, 1}, Filter: [3]int{filter, 1, 1}, Stride: [3]int{stride}, Dilation: [3]int{dilation}, Pad: [3]int{pad}}
						want := 0
						for at := -pad; at+(filter-1)*dilation < size+pad; at += stride {
							want++
						}
						if got := c.Result()[0]; got != want {
							t.Fatalf("size %d, filter %d, stride %d, dilation %d, pad %d: got %d, want %d", size, filter, stride, dilation, pad, got, want)
						}
					}
				}
			}
		}
	}
}

func TestCheck(t *testing.T) {
	good := Convolution{N: 1, In: 8, Out: 16, Size: [3]int{1, 4, 4}, Filter: [3]int{1, 3, 3}}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		set  func(*Convolution)
		want string
	}{
		{func(c *Convolution) { c.In = 12 }, "multiples of 8"},
		{func(c *Convolution) { c.N = 0 }, "at least one"},
		{func(c *Convolution) { c.Pass = 3 }, "passes 0 to 2"},
		{func(c *Convolution) { c.Type = -1 }, "types 0 to 2"},
		{func(c *Convolution) { c.Filter[1] = 5 }, "axis 1: filter 5"},
		{func(c *Convolution) { c.Pad[2] = -1 }, "axis 2"},
		{func(c *Convolution) { c.Stride[0] = -1 }, "axis 0"},
		{func(c *Convolution) { c.Pass, c.Bias = DataGrad, true }, "forward"},
		{func(c *Convolution) { c.Add = true }, "only gradients"},
		{func(c *Convolution) { c.FilterGradFloat32 = true }, "gradient of a filter"},
		{func(c *Convolution) { c.BiasFloat32 = true }, "no bias"},
		{func(c *Convolution) { c.Type, c.TF32 = Float16, true }, "TF32"},
	} {
		c := good
		test.set(&c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want an error with %q", c, err, test.want)
		}
	}
}

// Names are read as they are written, and nothing else is read.
func TestName(t *testing.T) {
	c := choice{fused: true, engine: 38, knobs: []knob{{13, 1}, {2, -5}}}
	if c.String() != "fused engine 38, 2=-5, 13=1" {
		t.Errorf("got %q", c)
	}
	for _, name := range []string{"engine 0", "engine 38, 2=5, 13=1", "fused engine 1"} {
		if c, err := parse(name); err != nil || c.String() != name {
			t.Errorf("%q: got %v, %v", name, c, err)
		}
	}
	for _, name := range []string{"", "engine", "engine x", "engine 1,2=3", "engine 1, 13=1, 2=5", "engine 1, 2", "engine 1, =", "engine 01", "motor 1", "engine 1, 2=99999999999999999999"} {
		if c, err := parse(name); err == nil {
			t.Errorf("%q: got %v, want an error", name, c)
		}
	}
	if c, err := parse("engine 4, 24=27"); err != nil || !slices.Equal(c.knobs, []knob{{24, 27}}) || c.engine != 4 || c.fused {
		t.Errorf("got %+v, %v", c, err)
	}
}
