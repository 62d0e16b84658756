package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// A model has one head, with a loss that it can be trained with.
func TestHeadsThatAreNone(t *testing.T) {
	for head, want := range map[string]string{
		`{}`: "0 heads",
		`{"spread": {"loss": "mse"}, "distribution": {"family": "normal", "rule": "crps"}}`: "2 heads",
		`{"spread": {"loss": "crps"}}`:                                                      `a spread with the loss "crps"`,
		`{"distribution": {"family": "student", "rule": "crps"}}`:                           `a distribution "student"`,
		`{"distribution": {"family": "log_cauchy", "rule": "crps"}}`:                        `a distribution "log_cauchy"`,
		`{"distribution": {"family": "bernstein", "degree": 5, "rule": "cross_entropy"}}`:   `with the loss "cross_entropy"`,
		`{"distribution": {"family": "bernstein", "rule": "crps"}}`:                         "of degree 0",
		`{"distribution": {"family": "histogram", "bins": -1, "rule": "cross_entropy"}}`:    "with -1 bins",
		`{"distribution": {"family": "logistic", "degree": 4, "rule": "crps"}}`:             "of degree 4",
		`{"distribution": {"family": "histogram", "bins": 3, "rule": "cross_entropy"}}`:     "a histogram of 3 bins",
		`{"distribution": {"family": "normal", "rule": "crps", "tails": "student"}}`:        "calibrated",
		`{"distribution": {"family": "logistic", "rule": "crps", "spread_weight": "much"}}`: "cannot unmarshal",
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

// A network is of a kind, which has the head and the place of the leads that are said of it.
func TestKindsThatAreNone(t *testing.T) {
	for network, want := range map[string]string{
		`"kind": "unet4d", "head": {"spread": {"loss": "mse"}}`:                               `no kind of network is called "unet4d"`,
		`"kind": "drn", "head": {"members": {"loss": "crps"}}`:                                `a network "drn" with the head "members"`,
		`"kind": "poet", "head": {"spread": {"loss": "mse"}}`:                                 `a network "poet" with the head "spread"`,
		`"kind": "conv_lstm", "head": {"distribution": {"family": "normal", "rule": "crps"}}`: `a network "conv_lstm" with its leads in "channels"`,
		`"kind": "lenet", "leads": "rows", "head": {"spread": {"loss": "mse"}}`:               `a network "lenet" with its leads in "rows"`,
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
