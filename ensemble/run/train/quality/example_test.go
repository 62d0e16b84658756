package quality_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
)

// Read the time to the target loss from an MLPerf log.
func ExampleRead() {
	dir, err := os.MkdirTemp("", "quality")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "mllog.txt")
	lines := `:::MLLOG {"namespace": "", "time_ms": 1000, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {}}
:::MLLOG {"namespace": "", "time_ms": 1000, "event_type": "POINT_IN_TIME", "key": "quality_target", "value": 0.45, "metadata": {}}
:::MLLOG {"namespace": "", "time_ms": 61000, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 0.42, "metadata": {"epoch_num": 1}}
:::MLLOG {"namespace": "", "time_ms": 91000, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"status": "success", "steps": 300}}
`
	if err := os.WriteFile(log, []byte(lines), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	t, err := quality.Read(log)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Reached, t.Seconds, "s", t.Epochs, "epoch", t.Steps, "steps, loss", t.Loss)
	// Output: true 90 s 1 epoch 300 steps, loss 0.42
}
