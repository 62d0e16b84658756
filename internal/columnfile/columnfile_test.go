package columnfile

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

type head struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

type record struct {
	Place int64
	Is    bool
	Pair  [2]float32
}

// All bits are restored, and a file has the documented bytes.
func TestRoundTrip(t *testing.T) {
	floats := []float64{0, math.Copysign(0, -1), math.Float64frombits(0x7ff8_0000_dead_beef), math.Float64frombits(0xfff0_0000_0000_0001), math.Inf(-1), math.SmallestNonzeroFloat64}
	records := []record{{-1, true, [2]float32{1.5, math.Float32frombits(0x7fc0_1234)}}, {1 << 40, false, [2]float32{}}}
	columns := Append(Append(nil, floats...), records...)
	text, err := Encode("test/1", head{"a\nb", len(floats)}, columns)
	if err != nil {
		t.Fatal(err)
	}
	var h head
	c, err := Decode(text, "test/1", &h)
	if err != nil || h != (head{"a\nb", len(floats)}) {
		t.Fatal(h, err)
	}
	again := Append(Append(nil, Next[float64](c, h.Count)...), NextValue[record](c), NextValue[record](c))
	if err := c.CheckEnd(); err != nil || !bytes.Equal(again, columns) {
		t.Errorf("%x became %x, %v", columns, again, err)
	}
	whole, err := Encode("s/1", head{"x", 1}, Append(nil, 1.0))
	const want = "s/1\n49348c34eb8c9e1ed872b5d3baa2a7f02cbf8211bbd040863cfbfe32e5f36e9e\n" + `{"name":"x","count":1}` + "\n\x00\x00\x00\x00\x00\x00\xf0\x3f"
	if err != nil || string(whole) != want {
		t.Errorf("%q, want %q, %v", whole, want, err)
	}
}

// Truncated files and other schemas are refused, and no count makes a read allocate
// more than the file has.
func TestRefused(t *testing.T) {
	good, err := Encode("test/2", head{"x", 2}, Append(nil, 1.0, 2.0))
	if err != nil {
		t.Fatal(err)
	}
	other, _ := Encode("test/1", head{"x", 2}, nil)
	noHead, _ := Encode("test/2", "x", nil)
	changed := bytes.Clone(good)
	changed[len(changed)-1] ^= 1
	for want, text := range map[string][]byte{`got "test/1"`: other, `got ""`: nil, "damaged": changed, "cannot unmarshal": noHead,
		`got "` + strings.Repeat("x", 40) + `"`: bytes.Repeat([]byte("x"), 1000)} {
		if _, err := Decode(text, "test/2", new(head)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for n := range good {
		if _, err := Decode(good[:n], "test/2", new(head)); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(good))
		}
	}
	for _, n := range []int{0, 1, 3, -1, math.MaxInt, math.MaxInt/8 + 1} {
		c, err := Decode(good, "test/2", new(head))
		if err != nil {
			t.Fatal(err)
		}
		x := Next[float64](c, n)
		if bad := c.CheckEnd(); bad == nil || n > 2 && (x != nil || NextValue[float64](c) != 0) {
			t.Errorf("%d numbers of 2 are %v, %v", n, x, bad)
		}
	}
}
