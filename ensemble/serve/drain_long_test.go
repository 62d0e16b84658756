//go:build long

package serve

import "testing"

// TestLongEndLosesNoRequest ends services after 10,000 requests, and at random moments of short loads.
func TestLongEndLosesNoRequest(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		answered := int64(0)
		for round := range 21 {
			n := int64(round * 17)
			if round == 0 {
				n = 10_000
			}
			all := endUnderLoad(t, network, n)
			answered += all.answered.Load()
			if len(all.lost) > 0 {
				t.Errorf("%s, round %d: %d of %d requests were lost: %q", network, round, len(all.lost), all.answered.Load(), all.lost[:min(5, len(all.lost))])
			}
		}
		t.Logf("%s: %d requests were answered until 21 services ended, none was lost", network, answered)
	}
}

// TestLongServiceLeaksNothing is TestServiceLeaksNothing for 100,000 requests.
func TestLongServiceLeaksNothing(t *testing.T) { checkLeaks(t, 100_000) }
