package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestHeadsThatAreNone: a model must have exactly one head, with a loss that this head supports.
func TestHeadsThatAreNone(t *testing.T) {
	for head, want := range map[string]string{
		`{}`: "0 heads",
		`{"spread": {"loss": "mse"}, "distribution": {"family": "normal", "rule": "crps"}}`: "2 heads",
		`{"spread": {"loss": "crps"}}`:                                                       `does not support the loss "crps"`,
		`{"distribution": {"family": "student", "rule": "crps"}}`:                            `distribution "student" does not support`,
		`{"distribution": {"family": "log_cauchy", "rule": "crps"}}`:                         `distribution "log_cauchy" does not support`,
		`{"distribution": {"family": "bernstein", "degree": 5, "rule": "cross_entropy"}}`:    `support the loss "cross_entropy"`,
		`{"distribution": {"family": "bernstein", "rule": "crps"}}`:                          "with degree 0",
		`{"distribution": {"family": "histogram", "bins": -1, "rule": "cross_entropy"}}`:     "-1 bins",
		`{"distribution": {"family": "logistic", "degree": 4, "rule": "crps"}}`:              "with degree 4",
		`{"distribution": {"family": "histogram", "bins": 3, "rule": "cross_entropy"}}`:      "histogram head with 3 bins",
		`{"distribution": {"family": "normal", "rule": "crps", "recalibration": "student"}}`: "recalibrat",
		`{"distribution": {"family": "logistic", "rule": "crps", "spread_weight": "much"}}`:  "cannot unmarshal",
	} {
		dir := t.TempDir()
		family := "normal"
		for _, f := range []string{"histogram", "student"} {
			if strings.Contains(head, f) {
				family = f
			}
		}
		text := fmt.Sprintf(`{"schema": %q, "networks": 1, "family": %q, "network": {"kind": "unet3d", "head": %s}}`, schema, family, head)
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := LoadDescription(dir); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want exit %d with %q", head, err, exit.BadData, want)
		}
	}
}

// TestKindsThatAreNone: the kind of a network must exist, and support its head and arrangement of
// leads.
func TestKindsThatAreNone(t *testing.T) {
	for network, want := range map[string]string{
		`"kind": "unet4d", "head": {"spread": {"loss": "mse"}}`:                               `unknown kind of network "unet4d"`,
		`"kind": "drn", "head": {"members": {"loss": "crps"}}`:                                `network "drn" does not support the head "members"`,
		`"kind": "poet", "head": {"spread": {"loss": "mse"}}`:                                 `network "poet" does not support the head "spread"`,
		`"kind": "conv_lstm", "head": {"distribution": {"family": "normal", "rule": "crps"}}`: `network "conv_lstm" does not support leads in "channels"`,
		`"kind": "lenet", "leads": "batch", "head": {"spread": {"loss": "mse"}}`:              `network "lenet" does not support leads in "batch"`,
	} {
		dir := t.TempDir()
		text := fmt.Sprintf(`{"schema": %q, "networks": 1, "family": "normal", "network": {%s}}`, schema, network)
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := LoadDescription(dir); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want exit %d with %q", network, err, exit.BadData, want)
		}
	}
}
