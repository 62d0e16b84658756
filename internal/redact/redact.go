// Package redact takes secrets out of text that is written down: passwords and tokens in
// addresses, and values of flags and variables whose names say that they are secret.
package redact

import "regexp"

// Mask stands where a secret was.
const Mask = "***"

// secret is what comes before a secret.
const secret = `(?i)((?:[A-Za-z0-9_-]*(?:password|passwd|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|signature)[A-Za-z0-9_-]*|[?&;](?:sig|key|auth))\\?["']?\s*(?:=|:)\s*|--[a-z-]*(?:password|secret|token|api-key)[a-z-]*\s+)`

var (
	// user:password@ of an address, and a token in place of both; also of one that was taken for a path and has lost a slash.
	userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://?)[^\s/?#"'@]+@`)
	// name=value, name: value, "name":"value", name value of a header, and --name value; and the same with a value in quotes, in
	// which there may be anything.
	named   = regexp.MustCompile(secret + `(?:[^\s"'&;,\\]|\\[^"])+`)
	escaped = regexp.MustCompile(secret + `\\"[^"]*"?`) // in a text that was quoted as a whole
	quoted  = regexp.MustCompile(secret + `"(?:[^"\\]|\\.)*"?`)
	quoted1 = regexp.MustCompile(secret + `'[^']*'?`)
	// Authorization: Bearer x, Basic x.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`)
)

// Text gives a text without secrets. What it does not know for one it leaves.
func Text(s string) string {
	s = userinfo.ReplaceAllString(s, "${1}"+Mask+"@")
	s = scheme.ReplaceAllString(s, "${1} "+Mask)
	s = escaped.ReplaceAllString(s, `${1}\"`+Mask+`\"`)
	s = quoted.ReplaceAllString(s, `${1}"`+Mask+`"`)
	s = quoted1.ReplaceAllString(s, "${1}'"+Mask+"'")
	return named.ReplaceAllString(s, "${1}"+Mask)
}
