package config

import (
	"net/url"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// Hook is the section serve.on_issue: what is called when products were issued. The zero value calls nothing.
type Hook struct {
	Command    []string      `key:"command"`     // program and arguments
	URL        string        `key:"url"`         // of a webhook
	SecretFile Path          `key:"secret_file"` // with secrets that sign its requests
	Timeout    time.Duration `key:"timeout"`     // of one attempt
	RetryFor   time.Duration `key:"retry_for"`
}

// hookKeys are the rows of Hook.
var hookKeys = []schema.Key{
	{Path: "serve.on_issue.command", Example: "[/etc/ensemble/deliver.sh]",
		Help: "Program and arguments that are executed, without a shell, after products were issued; standard input has their description as JSON. Default: none."},
	{Path: "serve.on_issue.url", Check: schema.Check{Text: "an address such as https://example.org/hook, without a password", Allows: func(v any) bool { return isHookURL(v.(string)) }},
		Example: "https://receiver.example.org/issued",
		Help:    "Address of a webhook: it receives the description of issued products as a signed POST request (standardwebhooks.com). Default: none."},
	{Path: "serve.on_issue.secret_file", Example: "/etc/ensemble/hook.secret",
		Help: "File with the secret that signs requests: a line whsec_ and 24 to 64 bytes in base64. With several lines each request has a signature by each."},
	{Path: "serve.on_issue.timeout", Default: "30s", Check: Above(0), Example: "10m",
		Help: "Longest time of one attempt. A command that takes longer is ended, with all processes that it started."},
	{Path: "serve.on_issue.retry_for", Default: "24h", Check: Above(0), Example: "24h",
		Help: "Time from the first attempt after which a delivery is given up. Attempts follow after serve.retry_delay, doubled each time, up to an hour."},
}

// isHookURL reports whether s is an address of HTTP with a host, and has no password, which messages would show.
func isHookURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil
}

// checkHook checks the section serve.on_issue.
//
// Errors: exit 64.
func (c *PredictConfig) checkHook() error {
	switch h := c.Serve.OnIssue; {
	case h.Command != nil && h.URL != "":
		return c.Fault("serve.on_issue", "serve.on_issue has command and url", "one of them is called", "keep one; a command may send requests itself")
	case h.URL != "" && h.SecretFile == "":
		return c.Fault("serve.on_issue.url", "serve.on_issue.url without serve.on_issue.secret_file", "the receiver could not tell requests of this service from others",
			`create the file with (umask 077; echo "whsec_$(head -c 32 /dev/urandom | base64)" >hook.secret), and name it in secret_file`)
	case h.URL == "" && h.SecretFile != "":
		return c.Fault("serve.on_issue.secret_file", "serve.on_issue.secret_file without serve.on_issue.url", "only requests are signed", "add url, or remove secret_file")
	}
	return nil
}
