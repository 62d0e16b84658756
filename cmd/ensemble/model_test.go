package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestModelImport imports weights of PyTorch, and checks that the error for a pickle states how to convert it.
func TestModelImport(t *testing.T) {
	dir := t.TempDir()
	golden := filepath.Join("..", "..", "unet3d", "testdata", "unet3d_base2.safetensors")
	code, stdout, stderr := call(t, "model", "import", golden, "--out", filepath.Join(dir, "m"), "--threads", "1", "--json")
	var answer struct {
		Network struct {
			Kind                   string
			Base, Stages, Channels int
		}
		Golden  float64 `json:"golden_difference"`
		Outputs []string
	}
	if err := json.Unmarshal([]byte(stdout), &answer); code != exit.OK || err != nil {
		t.Fatalf("exit %d, %v: %s %s", code, err, stdout, stderr)
	}
	if n := answer.Network; n.Kind != "unet3d" || n.Base != 2 || n.Stages != 5 || n.Channels != 3 || answer.Golden <= 0 || answer.Golden > 1e-4 || len(answer.Outputs) != 2 {
		t.Errorf("answer %+v", answer)
	}
	pickle := filepath.Join(dir, "model.pt")
	if err := os.WriteFile(pickle, []byte("\x80\x02}q\x00X\x01\x00\x00\x00aK\x01s."), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code exit.Code
		want string
	}{
		{[]string{pickle, "--out", filepath.Join(dir, "p")}, exit.BadData, "st.save_file"},
		{[]string{golden}, exit.Usage, "missing --out"},
		{[]string{golden, "--out", dir, "--apply", golden}, exit.Usage, "--apply and --to must be given together"},
		{[]string{golden, "--out", dir, "--reinject", "1"}, exit.Usage, "does not apply to"},
		{[]string{golden, golden, "--out", dir}, exit.Usage, "2 arguments, want one"},
	} {
		code, _, stderr := call(t, append([]string{"model", "import"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %s; want exit %d and %q", c.args, code, stderr, c.code, c.want)
		}
	}
}
