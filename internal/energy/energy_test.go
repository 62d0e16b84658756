package energy

import (
	"os"
	"path/filepath"
	"testing"
)

// Packages count, their parts do not, and a counter that went around is understood.
func TestJoules(t *testing.T) {
	root := t.TempDir()
	set := func(zone, energy string) {
		t.Helper()
		dir := filepath.Join(root, zone)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"energy_uj": energy, "max_energy_range_uj": "10000000"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m := Start(root); m != nil {
		t.Error("a machine without counters has a meter")
	}
	if _, ok := (*Meter)(nil).Joules(); ok {
		t.Error("no meter gave a reading")
	}
	set("intel-rapl:0", "1000000")
	set("intel-rapl:0:0", "5")
	set("intel-rapl:1", "9000000")
	m := Start(root)
	set("intel-rapl:0", "3500000")
	set("intel-rapl:0:0", "4000000")
	set("intel-rapl:1", "1000000")
	if j, ok := m.Joules(); !ok || j != 4.5 {
		t.Errorf("%g J, %v, want 2.5 and 2", j, ok)
	}
	if err := os.RemoveAll(filepath.Join(root, "intel-rapl:1")); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Joules(); ok {
		t.Error("a counter that went away gave a reading")
	}
}
