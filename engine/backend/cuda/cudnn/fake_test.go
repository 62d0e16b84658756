//go:build cgo && linux

package cudnn

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries/librariestest"
	"github.com/ensemble-weather/ensemble/internal/allocs"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestMain(m *testing.M) { librariestest.Main(m) }

// loaded implements device.NativeHandles.
const loaded = librariestest.FakeHandles(0x5000)

// at is an address of no memory of this program.
var at = librariestest.FakeAddress

// fake opens the fake of cuDNN. log returns its calls since the last time.
func fake(t *testing.T) (l *Library, h *Handle, log func() []string) {
	t.Helper()
	find, log := librariestest.Fake(t)
	l, err := Open(find)
	if err != nil {
		t.Fatal(err)
	}
	if h, err = l.New(loaded); err != nil {
		t.Fatal(err)
	}
	return l, h, log
}

// example has another number in each place.
var example = Convolution{N: 2, In: 16, Out: 24, Size: [3]int{5, 18, 36}, Filter: [3]int{1, 3, 5},
	Stride: [3]int{1, 2, 3}, Dilation: [3]int{1, 2, 0}, Pad: [3]int{0, 1, 2}, Type: BFloat16}

// The attributes of a convolution that cuDNN receives: of tensors their number,
// type, alignment, dimensions [N C D H W] and strides of channels-last.
func TestAttributes(t *testing.T) {
	_, h, log := fake(t)
	c := example
	c.Bias, c.ReLU = true, true
	p, err := h.Plan(c, "fused engine 4, 24=27")
	if err != nil {
		t.Fatal(err)
	}
	// By hand: y is (5−1)/1+1 = 5 deep, (18+2−2·2−1)/2+1 = 8 high, (36+4−4−1)/3+1 = 12 wide.
	want := `create A kind 17
set A attribute 906 type 3: 1
set A attribute 901 type 1: 9
set A attribute 900 type 3: 16
set A attribute 902 type 3: 2 16 5 18 36
set A attribute 903 type 3: 51840 1 10368 576 16
set A attribute 907 type 2: 0
finalize A
create B kind 17
set B attribute 906 type 3: 2
set B attribute 901 type 1: 9
set B attribute 900 type 3: 16
set B attribute 902 type 3: 24 16 1 3 5
set B attribute 903 type 3: 240 1 240 80 16
set B attribute 907 type 2: 0
finalize B
create C kind 17
set C attribute 906 type 3: 3
set C attribute 901 type 1: 9
set C attribute 900 type 3: 16
set C attribute 902 type 3: 2 24 5 8 12
set C attribute 903 type 3: 11520 1 2304 288 24
set C attribute 907 type 2: 0
finalize C
create D kind 1
set D attribute 100 type 1: 0
set D attribute 101 type 7: 1
set D attribute 106 type 3: 3
set D attribute 102 type 3: 1 2 1
set D attribute 103 type 3: 1 2 3
set D attribute 105 type 3: 0 1 2
set D attribute 104 type 3: 0 1 2
finalize D
create E kind 17
set E attribute 906 type 3: 5
set E attribute 901 type 1: 0
set E attribute 900 type 3: 16
set E attribute 902 type 3: 2 24 5 8 12
set E attribute 903 type 3: 11520 1 2304 288 24
set E attribute 907 type 2: 1
finalize E
create F kind 10
set F attribute 702 type 15: #D
set F attribute 704 type 15: #A
set F attribute 703 type 15: #B
set F attribute 705 type 15: #E
set F attribute 700 type 4: 1
set F attribute 701 type 4: 0
finalize F
create G kind 17
set G attribute 906 type 3: 6
set G attribute 901 type 1: 0
set G attribute 900 type 3: 16
set G attribute 902 type 3: 2 24 5 8 12
set G attribute 903 type 3: 11520 1 2304 288 24
set G attribute 907 type 2: 1
finalize G
create H kind 17
set H attribute 906 type 3: 4
set H attribute 901 type 1: 9
set H attribute 900 type 3: 16
set H attribute 902 type 3: 1 24 1 1 1
set H attribute 903 type 3: 24 1 24 24 24
set H attribute 907 type 2: 0
finalize H
create I kind 0
set I attribute 0 type 14: 0
set I attribute 1 type 1: 0
finalize I
create J kind 13
set J attribute 750 type 15: #I
set J attribute 751 type 15: #E
set J attribute 752 type 15: #H
set J attribute 753 type 15: #G
finalize J
create K kind 0
set K attribute 0 type 14: 100
set K attribute 1 type 1: 0
set K attribute 2 type 10: 1
finalize K
create L kind 13
set L attribute 750 type 15: #K
set L attribute 751 type 15: #G
set L attribute 753 type 15: #C
finalize L
create M kind 15
set M attribute 801 type 15: #F #J #L
set M attribute 800 type 0: handle
finalize M
create N kind 2
set N attribute 1300 type 15: #M
set N attribute 1301 type 3: 4
finalize N
create O kind 7
set O attribute 600 type 9: 24
set O attribute 601 type 3: 27
finalize O
create P kind 3
set P attribute 300 type 15: #N
set P attribute 302 type 15: #O
finalize P
create Q kind 5
set Q attribute 401 type 15: #P
set Q attribute 400 type 0: handle
finalize Q`
	lines := log()
	if lines[0] != "stream 0x5000" {
		t.Errorf("the stream: got %q", lines[0])
	}
	letters := map[string]string{}
	for i, l := range lines {
		words := strings.Fields(l)
		if words[0] == "create" {
			letters[words[1]] = string(rune('A' + len(letters)))
		}
		for j, w := range words {
			if j == 1 || strings.HasPrefix(w, "#") {
				words[j] = strings.Repeat("#", strings.Count(w, "#")) + letters[strings.TrimPrefix(w, "#")]
			}
		}
		lines[i] = strings.Join(words, " ")
	}
	if got := strings.Join(lines[1:], "\n"); got != want {
		for i, w := range strings.Split(want, "\n") {
			if i+1 >= len(lines) || lines[i+1] != w {
				t.Fatalf("line %d: got %q, want %q\nall:\n%s", i, append(lines, "none")[i+1], w, got)
			}
		}
		t.Fatalf("more than wanted:\n%s", got)
	}
	if err := errors.Join(p.Close(), p.Close(), h.Close(), h.Close()); err != nil {
		t.Fatal(err)
	}
	if got := log(); got[len(got)-1] != "live 0" {
		t.Errorf("descriptors that are left: %v", got)
	}
}

// Gradients have operations and attributes of their own, and may add to what is there.
func TestGradients(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Convolution)
		want []string // of the operation, without the numbers of its descriptor
	}{
		{"data", func(c *Convolution) { c.Pass = DataGrad }, []string{"kind 12", "708 conv", "710 x", "709 w", "711 y", "706 type 4: 1", "707 type 4: 0"}},
		{"filter", func(c *Convolution) { c.Pass, c.FilterGradFloat32, c.Add = FilterGrad, true, true }, []string{"kind 11", "714 conv", "716 x", "715 w", "717 y", "712 type 4: 1", "713 type 4: 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, h, log := fake(t)
			c := example
			test.set(&c)
			p, err := h.Plan(c, "engine 0")
			if err != nil {
				t.Fatal(err)
			}
			lines := log()[1:]
			ids := map[string]string{} // of tensors and the convolution, in order
			for _, l := range lines {
				if w := strings.Fields(l); w[0] == "create" && len(ids) < 4 {
					ids["#"+w[1]] = []string{"x", "w", "y", "conv"}[len(ids)]
				}
			}
			var got []string
			for _, l := range lines {
				w := strings.Fields(l)
				if strings.HasSuffix(l, test.want[0]) && w[0] == "create" {
					got = append(got, test.want[0])
				} else if len(got) > 0 && w[0] == "set" && len(got) < len(test.want) {
					if name, ok := ids[w[len(w)-1]]; ok {
						got = append(got, w[3]+" "+name)
					} else {
						got = append(got, strings.Join(w[3:], " "))
					}
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			wide := slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, "attribute 901 type 1: 0") })
			if wide != c.FilterGradFloat32 {
				t.Errorf("a float32 tensor among them: %v, want %v", wide, c.FilterGradFloat32)
			}
			if err := errors.Join(p.Close(), h.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// names are those of plans.
func names(plans []*Plan) []string {
	var s []string
	for _, p := range plans {
		s = append(s, p.Name())
	}
	return s
}

// A plan is saved and restored from its text, with its workspace and without its engine; a text
// that is none is refused.
func TestSaved(t *testing.T) {
	_, h, log := fake(t)
	c := example
	c.Bias = true
	p, err := h.Plan(c, "fused engine 4, 24=27")
	if err != nil {
		t.Fatal(err)
	}
	if q, err := h.Plan(example, "engine 0"); err != nil || q.Compiled() || !p.Compiled() || q.Close() != nil {
		t.Errorf("compiled: %v; %v", p.Compiled(), err)
	}
	text, err := p.Save()
	if err != nil || string(text) != "plan 4" {
		t.Fatalf("saved %q, %v", text, err)
	}
	log()
	q, err := h.Restore(c, p.Name(), text)
	if err != nil {
		t.Fatal(err)
	}
	if q.Name() != p.Name() || !q.Fused() || q.Workspace() != p.Workspace() || q.Compiled() {
		t.Errorf("restored %s, fused %v, %d bytes", q.Name(), q.Fused(), q.Workspace())
	}
	lines := log()
	if len(lines) != 4 || !strings.HasSuffix(lines[1], "attribute 405 type 24:plan 4") || !strings.HasSuffix(lines[2], "attribute 400 type 0: handle") {
		t.Errorf("asked %q", lines)
	}
	o := Operands{X: at(0x10000), W: at(0x20000), Y: at(0x30000), Bias: at(0x40000)}
	if err := q.Run(o); err != nil {
		t.Error(err)
	}
	if got := log(); !strings.HasPrefix(got[len(got)-1], "execute engine 4 ") {
		t.Errorf("asked %q", got)
	}
	for _, wrong := range []struct{ name, text string }{{p.Name(), "nothing"}, {p.Name(), ""}, {"engine", "plan 4"}, {"engine 9", "plan 9"}} {
		if _, err := h.Restore(c, wrong.name, []byte(wrong.text)); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
	t.Setenv("FAKE_FAIL", "cudnnBackendGetAttribute=4000@2")
	if _, err := p.Save(); err == nil {
		t.Error("a text that cannot be read: no error")
	}
	t.Setenv("FAKE_FAIL", "")
	if err := errors.Join(p.Close(), q.Close(), h.Close()); err != nil {
		t.Error(err)
	}
	if got := log(); got[len(got)-1] != "live 0" {
		t.Errorf("descriptors that are left: %v", got)
	}
}

// A slab has its own zero padding on either side of an axis, and is part of planes with
// more rows.
func TestSlab(t *testing.T) {
	_, h, log := fake(t)
	c := Convolution{N: 2, In: 8, Out: 16, Size: [3]int{3, 5, 7}, Filter: [3]int{3, 3, 3}, Pad: [3]int{1, 1, 1}, ExtraPadEnd: [3]int{0, -1, 0}, PlaneRowsX: 9, PlaneRowsY: 8, Type: Float32}
	p, err := h.Plan(c, "engine 0")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(log(), "\n")
	for _, want := range []string{"902 type 3: 2 8 3 5 7", "903 type 3: 1512 1 504 56 8", // of x: 3 planes of 9 rows of 7 points of 8
		"902 type 3: 2 16 3 4 7", "903 type 3: 2688 1 896 112 16", // of y: 3 planes of 8 rows
		"attribute 105 type 3: 1 1 1", "attribute 104 type 3: 1 0 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, wrong := range []Convolution{{PlaneRowsX: 4, PlaneRowsY: 8}, {PlaneRowsX: 9, PlaneRowsY: 3}, {ExtraPadEnd: [3]int{0, -2, 0}}} {
		x := c
		x.PlaneRowsX, x.PlaneRowsY, x.ExtraPadEnd = wrong.PlaneRowsX, wrong.PlaneRowsY, wrong.ExtraPadEnd
		if _, err := h.Plan(x, "engine 0"); err == nil {
			t.Errorf("%+v: no error", wrong)
		}
	}
	if err := errors.Join(p.Close(), h.Close()); err != nil {
		t.Error(err)
	}
}

// Engines that are nondeterministic, want too much memory, round where that is not wished,
// fail or were there before are left out; fused ones come first.
func TestPlans(t *testing.T) {
	float := example
	float.Type = Float32
	tf32 := float
	tf32.TF32 = true
	biased := example
	biased.Bias = true
	for _, test := range []struct {
		name     string
		c        Convolution
		limits   Limits
		noFusion bool
		want     []string
	}{
		{"all", example, Limits{Workspace: 1 << 20}, false, []string{"engine 3, 2=7, 14=2", "engine 7", "engine 0"}},
		{"little memory", example, Limits{Workspace: 4096}, false, []string{"engine 3, 2=7, 14=2", "engine 0"}},
		{"no memory", example, Limits{}, false, []string{"engine 0"}},
		{"two", example, Limits{Workspace: 1 << 20, MaxPlans: 2}, false, []string{"engine 3, 2=7, 14=2", "engine 7"}},
		{"float32", float, Limits{Workspace: 1 << 20}, false, []string{"engine 7", "engine 0"}},
		{"TF32", tf32, Limits{Workspace: 1 << 20}, false, []string{"engine 3, 2=7, 14=2", "engine 7", "engine 0"}},
		{"bias", biased, Limits{}, false, []string{"fused engine 4, 24=27", "engine 0"}},
		{"bias apart", biased, Limits{}, true, []string{"engine 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, h, log := fake(t)
			if test.noFusion {
				t.Setenv("FAKE_VALUES", "no_fusion=1")
			}
			plans, err := h.Plans(test.c, test.limits)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(plans); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, p := range plans {
				if fused := strings.HasPrefix(p.Name(), "fused"); p.Fused() != fused || slices.Contains(p.Notes(), "compiled here") != fused {
					t.Errorf("%s: fused %v, notes %v", p.Name(), p.Fused(), p.Notes())
				}
				if again, err := h.Plan(test.c, p.Name()); err != nil || again.Name() != p.Name() || again.Workspace() != p.Workspace() {
					t.Errorf("%s again: %v, %v", p.Name(), again, err)
				} else if err := again.Close(); err != nil {
					t.Error(err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if got := log(); got[len(got)-1] != "live 0" {
				t.Errorf("descriptors that are left: %s", got[len(got)-1])
			}
		})
	}
}

// If no engine is left, the error lists why each was excluded.
func TestNoPlan(t *testing.T) {
	_, h, _ := fake(t)
	t.Setenv("FAKE_FAIL", "cudnnBackendFinalize=4000@1000") // none
	c := example
	for _, name := range []string{"engine 5", "engine 9"} {
		if _, err := h.Plan(c, name); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := h.Plan(c, "fused engine 4"); err == nil || !strings.Contains(err.Error(), "nothing to fuse") {
		t.Errorf("fused without bias: got %v", err)
	}
	_, err := h.Plans(c, Limits{Workspace: -1})
	if !errors.Is(err, ErrUnsupported) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"engine 5: nondeterministic", "engine 7: 1048576 bytes", "no such tile", "forward of [5 18 36]", "heuristics B"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// Operands are described once as long as they stay; a run allocates nothing then.
func TestRun(t *testing.T) {
	_, h, log := fake(t)
	c := example
	c.Bias = true
	p, err := h.Plan(c, "fused engine 4, 24=27")
	if err != nil {
		t.Fatal(err)
	}
	log()
	o := Operands{X: at(0x10000), W: at(0x20000), Y: at(0x30000), Bias: at(0x40000), Workspace: at(0x50000)}
	for range 2 {
		if err := p.Run(o); err != nil {
			t.Fatal(err)
		}
	}
	lines := log()
	for i, want := range []string{"kind 16", "attribute 1000 type 3: 1 2 3 4", "attribute 1001 type 6: 0x10000 0x20000 0x30000 0x40000", "attribute 1003 type 6: (nil)", "", "execute", "execute"} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Fatalf("line %d lacks %q: %q", i, want, lines)
		}
	}
	t.Setenv("FAKE_LOG", "")
	if n := allocs.PerRun(100, func() {
		if err := p.Run(o); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%g allocations a run", n)
	}
	for name, wrong := range map[string]Operands{
		"missing":     {X: o.X, W: o.W, Y: o.Y},
		"not aligned": {X: at(0x10008), W: o.W, Y: o.Y, Bias: o.Bias},
	} {
		if err := p.Run(wrong); err == nil || !strings.Contains(err.Error(), "aligned to 16") {
			t.Errorf("%s operand: got %v", name, err)
		}
	}
	t.Setenv("FAKE_FAIL", "cudnnBackendExecute=4000@1")
	var e *CallError
	if err := p.Run(o); !errors.As(err, &e) || e.Call != "cudnnBackendExecute" || e.Detail != "injected into call 1" {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(p.Close(), h.Close()); err != nil {
		t.Error(err)
	}
	if err := p.Run(o); err == nil {
		t.Error("a closed plan runs")
	}
}

// Whichever call fails, the error names it and gives cuDNN's words, or another engine is
// taken, and no descriptor is left.
func TestFailures(t *testing.T) {
	c := example
	c.Bias = true
	for _, call := range []string{"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendFinalize", "cudnnBackendGetAttribute", "cudnnBackendDestroyDescriptor"} {
		t.Run(call, func(t *testing.T) {
			_, h, log := fake(t)
			path := os.Getenv("FAKE_LOG")
			failed := 0
			for k := 1; k < 1000; k += 17 {
				t.Setenv("FAKE_LOG", "")
				t.Setenv("FAKE_FAIL", fmt.Sprintf("%s=4000@%d", call, k))
				plans, err := h.Plans(c, Limits{Workspace: 1 << 20})
				for _, p := range plans {
					err = errors.Join(err, p.Close())
				}
				switch {
				case err == nil: // another engine was taken, or there are not so many calls
				case !strings.Contains(err.Error(), call+" of ") || !strings.Contains(err.Error(), fmt.Sprintf(": CUDNN_STATUS_INTERNAL_ERROR (4000): injected into call %d", k)):
					t.Fatalf("call %d: got %v", k, err)
				default:
					failed++
				}
			}
			if failed == 0 {
				t.Error("no call that fails gives an error")
			}
			t.Setenv("FAKE_FAIL", "")
			t.Setenv("FAKE_LOG", path)
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if got := log(); got[len(got)-1] != "live 0" {
				t.Errorf("descriptors that are left: %s", got[len(got)-1])
			}
		})
	}
}

// A handle that cannot be made is an error of the device.
func TestNoHandle(t *testing.T) {
	l, h, _ := fake(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"cudnnCreate", "cudnnSetStream"} {
		t.Setenv("FAKE_FAIL", call+"=4000@1")
		_, err := l.New(loaded)
		if exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), call) {
			t.Errorf("%s: got %v", call, err)
		}
	}
}

// The description of a device takes the place of its handle.
func TestDescribed(t *testing.T) {
	l, h, log := fake(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := l.NewFromDescription(`{"deviceVer":900}`)
	if err != nil {
		t.Fatal(err)
	}
	plans, err := h.Plans(example, Limits{})
	if err != nil || len(plans) != 1 {
		t.Fatalf("got %v, %v", names(plans), err)
	}
	if err := plans[0].Run(Operands{X: at(0x10000), W: at(0x20000), Y: at(0x30000)}); err == nil {
		t.Error("a plan of a described device runs")
	}
	if err := errors.Join(plans[0].Close(), h.Close()); err != nil {
		t.Error(err)
	}
	text := strings.Join(log(), "\n")
	for _, want := range []string{`attribute 2702 type 24:{"deviceVer":900}`, "attribute 204 type 15: #", "attribute 1307 type 15: #"} {
		if !strings.Contains(text, want) {
			t.Errorf("cuDNN did not receive %q", want)
		}
	}
	if strings.Contains(text, "attribute 800 ") || strings.Contains(text, "attribute 400 ") {
		t.Error("cuDNN received the handle of a described device")
	}
}

// A machine without the library, or with another one.
func TestMissing(t *testing.T) {
	librariestest.Missing(t, func(find func(libraries.Library) (*dl.Library, error)) error { _, err := Open(find); return err },
		ErrUnavailable, "cudnnGetVersion", "cudnnBackendExecute", "cudnnBackendFinalize")
}

// The library of this machine, if there is one, returns its version.
func TestVersion(t *testing.T) {
	l, err := Open(nil)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	if !strings.HasPrefix(l.Version(), "9.") || !strings.Contains(l.Path(), "libcudnn") {
		t.Errorf("version %q of %q", l.Version(), l.Path())
	}
}
