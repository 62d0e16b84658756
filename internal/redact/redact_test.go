package redact

import (
	"strings"
	"testing"
)

// Secrets in addresses, variables, JSON and command lines are replaced; other text is unchanged.
func TestFault47Secrets(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"https://user:pa55w0rd@host/a?x=1", "https://***@host/a?x=1"},
		{"open https:/user:pa55w0rd@host: no such file", "open https:/***@host: no such file"},
		{"s3://pa55w0rd@bucket", "s3://***@bucket"},
		{"get https://h/f?X-Amz-Signature=pa55w0rd&part=2", "get https://h/f?X-Amz-Signature=***&part=2"},
		{"https://h/f?sig=pa55w0rd", "https://h/f?sig=***"},
		{"AWS_SECRET_ACCESS_KEY=pa55w0rd HOME=/root", "AWS_SECRET_ACCESS_KEY=*** HOME=/root"},
		{`{"api_key": "pa55w0rd", "a": 1}`, `{"api_key": "***", "a": 1}`},
		{`password="pa55w0rd and pa55w0rd, ; \"pa55w0rd" b`, `password="***" b`},
		{`{"client_secret":"a\"pa55w0rd","b":"c"}`, `{"client_secret":"***","b":"c"}`},
		{"--token 'pa55w0rd & pa55w0rd' --out o", "--token '***' --out o"},
		{`read "{\"password\": \"pa55w0rd, pa55w0rd\", \"a\": 1}"`, `read "{\"password\": \"***\", \"a\": 1}"`},
		{`secret: "pa55w0rd`, `secret: "***"`},
		{"Authorization: Bearer pa55w0rd", "Authorization: Bearer ***"},
		{"ensemble x --token pa55w0rd --out o", "ensemble x --token *** --out o"},
		// Text without secrets is unchanged.
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

// FuzzText: a labelled secret is always masked, whatever surrounds it, and masking
// twice changes nothing.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", " ", `{"a": `, "https://", "user:x@h/?", "--", `password="`, "token=", "bearer ", "'", `\`} {
		f.Add(s, s)
	}
	const hidden = "pa55w0rd"
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, "55w") {
			t.Skip()
		}
		for _, s := range []string{before + " x password=" + hidden + after, before + ` x "api_key": "a b, ` + hidden + `"` + after, before + " x Authorization: Bearer " + hidden + " " + after, before + " x https://me:" + hidden + "@host" + after} {
			once := Text(s)
			if strings.Contains(once, hidden) {
				t.Errorf("%q: %q", s, once)
			}
		}
	})
}
