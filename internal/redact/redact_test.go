package redact

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"https://user:pa55w0rd@host/a?x=1", "https://***@host/a?x=1"},
		{"s3://pa55w0rd@bucket", "s3://***@bucket"},
		{"get https://h/f?X-Amz-Signature=pa55w0rd&part=2", "get https://h/f?X-Amz-Signature=***&part=2"},
		{"https://h/f?sig=pa55w0rd", "https://h/f?sig=***"},
		{"AWS_SECRET_ACCESS_KEY=pa55w0rd HOME=/root", "AWS_SECRET_ACCESS_KEY=*** HOME=/root"},
		{`{"api_key": "pa55w0rd", "a": 1}`, `{"api_key": "***", "a": 1}`},
		{"Authorization: Bearer pa55w0rd", "Authorization: Bearer ***"},
		{"ensemble x --token pa55w0rd --out o", "ensemble x --token *** --out o"},
		// What is none stays as it is.
		{"waiting until 2026-01-01T00:00:00Z: fc.grib2: it is still being written", ""},
		{"unknown key \"train.epocs\" at a@b.yaml:3:1, http://h:80/metrics?key2=3", ""},
		{"the loss of step 3: 0.5", ""},
	} {
		if c.want == "" {
			c.want = c.in
		}
		if got := Text(c.in); got != c.want || strings.Contains(got, "pa55w0rd") {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
		if once := Text(c.in); Text(once) != once {
			t.Errorf("%q: a second time %q", once, Text(once))
		}
	}
}
