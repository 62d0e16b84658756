//go:build long

package benchmarks

import "testing"

// TestLongEMOSBesidePeers compares EMOS by point with SciPy, of the Python that $ENSEMBLE_PEERS_PYTHON names, and with R.
func TestLongEMOSBesidePeers(t *testing.T) { emosBesidePeers(t, 16384, 500, 200, 5) }
