package runtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/exchange"
)

// Background returns context.Background for any rank.
func Background(int) context.Context { return context.Background() }

// Exported reads the description of an export.
func Exported(t *testing.T, dir string) (doc exchange.Document) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, exchange.ExportFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// ReadTensors reads a safetensors file.
func ReadTensors(t *testing.T, path string) []ckpt.Tensor {
	t.Helper()
	tensors, _, err := ckpt.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return tensors
}
