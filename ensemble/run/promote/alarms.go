package promote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Alarms are the alarms that a rolling verification raised on a model. Predictions read the file.
type Alarms struct {
	Schema string    `json:"schema"`
	Model  string    `json:"model_checksum"` // "sha256:…", as in manifests of products
	At     time.Time `json:"at"`             // newest initialisation that was scored
	Window string    `json:"window"`         // number of initialisations that were scored together
	Inits  int       `json:"inits"`          // in the window
	Alarms []Alarm   `json:"alarms"`         // empty if all scores are inside their bands
}

// Alarm is a score whose confidence interval lies outside its band.
type Alarm struct {
	Kind     string       `json:"kind"` // "pit", "spread_skill", "bias" or "skill"
	Variable string       `json:"variable"`
	Level    string       `json:"level"`
	Lead     string       `json:"lead"`
	Value    score.Number `json:"value"` // value of the score; confidence interval CILow to CIHigh
	CILow    score.Number `json:"ci_low"`
	CIHigh   score.Number `json:"ci_high"`
	BandLow  score.Number `json:"band_low"`
	BandHigh score.Number `json:"band_high"` // null: no upper limit
	Text     string       `json:"text"`      // score, value and band in words
	Since    string       `json:"since"`     // initialisation at which it was first raised
}

// AlarmsSchema is the schema of the file.
const AlarmsSchema = "ensemble.alarms/1"

// ReadAlarms reads a file of alarms; nil if it does not exist.
//
// Errors: exit 65 for another file; 74 if it cannot be read.
func ReadAlarms(path string) (*Alarms, error) {
	text, err := filesystem.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, exit.ReadError(path, err)
	}
	a := &Alarms{}
	if err = json.Unmarshal(text, a); err == nil && a.Schema != AlarmsSchema {
		err = fmt.Errorf("its schema is %q", a.Schema)
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "not a file of alarms", At: path, Why: err.Error(), Fix: "give the alarms.json of `ensemble verify --rolling`, which writes it again after it was removed", Err: err}
	}
	return a, nil
}

// AlarmsOn reads the alarms of a file on a model; nil for none.
//
// Errors: those of ReadAlarms.
func AlarmsOn(path, modelSum string) (*Alarms, error) {
	a, err := ReadAlarms(path)
	if err != nil || a == nil || a.Model != modelSum || len(a.Alarms) == 0 {
		return nil, err
	}
	return a, nil
}

// AlarmsOf describes the alarms of a file on a model; "" for none.
//
// Errors: those of ReadAlarms.
func AlarmsOf(path, modelSum string) (string, error) {
	a, err := AlarmsOn(path, modelSum)
	if a == nil {
		return "", err
	}
	words := make([]string, len(a.Alarms))
	for i, x := range a.Alarms {
		words[i] = x.Text
	}
	return fmt.Sprintf("rolling verification raised alarms since %s: %s", a.Alarms[0].Since, humanise.List(words)), nil
}
