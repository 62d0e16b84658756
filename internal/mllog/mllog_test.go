package mllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	good, err := json.Marshal(Event{Key: "seed", Type: point})
	if err != nil {
		t.Fatal(err)
	}
	events, err := Read(strings.NewReader(Token + string(good) + "\n" + Token + "{\n" + Token + `{"key": "x", "colour": 3}` + "\n"))
	if len(events) != 1 || err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("%v, %v", events, err)
	}
	for _, events := range [][]Event{nil, {{Key: RunStart}}, {{Key: RunStop, Metadata: Metadata{"status": Success}}}} {
		if s, reached, err := Seconds(events); s != 0 || reached || err == nil {
			t.Errorf("%v: %g s, %v, %v", events, s, reached, err)
		}
	}
	var none *Log
	none.Point("seed", 1, nil)
	none.Start("run", nil)
	none.End(Aborted, nil)
	if none.Err() != nil || !none.Ended() {
		t.Error("the nil log is no log")
	}
	broken := New(full{})
	broken.Point("seed", 1, nil)
	if broken.Err() == nil {
		t.Error("a log that cannot be written has no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

// FuzzRead: any text is parsed or refused, and Seconds handles any events.
func FuzzRead(f *testing.F) {
	var log bytes.Buffer
	l := New(&log)
	l.Point("seed", 1, nil)
	l.Start("epoch", Metadata{EpochNum: 1})
	l.Stop("epoch", Metadata{EpochNum: 1})
	l.End(Success, nil)
	f.Add(log.String())
	f.Add(Token + ` {"key": "run_stop", "event_type": "INTERVAL_END", "metadata": {"status": {}, "epoch_num": []}}`)
	f.Fuzz(func(t *testing.T, text string) {
		events, err := Read(strings.NewReader(text))
		if err == nil && len(events) < strings.Count(text, "\n"+Token) {
			t.Errorf("%q: %d events", text, len(events))
		}
		if _, reached, err := Seconds(events); reached && err != nil {
			t.Errorf("%q: reached, %v", text, err)
		}
	})
}
