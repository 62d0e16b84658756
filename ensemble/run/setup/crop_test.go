package setup

import (
	"encoding/json"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestCrop checks that sizes survive a round trip, on the command line and in JSON.
func TestCrop(t *testing.T) {
	for text, want := range map[string]Crop{"128": {128, 128}, "352x704": {352, 704}} {
		c, err := ParseCrop(text)
		if err != nil || c != want || c.String() != text {
			t.Errorf("%q is read as %+v, printed as %q; error %v", text, c, c, err)
		}
		written, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Crop
		if err := json.Unmarshal(written, &back); err != nil || back != c {
			t.Errorf("%s is read back as %+v, error %v", written, back, err)
		}
	}
	for _, bad := range []string{"", "x", "3x", "0", "-32", "32x32x32", "1.5"} {
		if c, err := ParseCrop(bad); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%q is read as %+v, error %v", bad, c, err)
		}
	}
}
