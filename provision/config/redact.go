package config

import (
	"net/url"
	"regexp"
)

// secretFlag matches "--password value", "-token=value", and secretPair matches
// "db_password=value" and "token: value". The name must stand alone or end with
// the secret word, so that monkey=banana is left as it is.
var (
	secretFlag = regexp.MustCompile(`(?i)(^|\s)(--?(?:[a-z0-9]+[-_])*(?:password|passwd|token|secret|key|credential|auth)s?)(\s+|=)("[^"]*"|'[^']*'|\S+)`)
	secretPair = regexp.MustCompile(`(?i)(^|[\s"'{,;&?])((?:[a-z0-9]+[-_.])*(?:password|passwd|token|secret|key|credential|auth)s?)(\s*[=:]\s*)("[^"]*"|'[^']*'|\S+)`)
)

// Redact returns line with the values of anything that looks like a password,
// token, secret, key or credential replaced. Use it on every command line and tool
// output before it is logged or reported.
func Redact(line string) string {
	line = secretFlag.ReplaceAllString(line, "${1}${2}${3}"+Redacted)
	return secretPair.ReplaceAllString(line, "${1}${2}${3}"+Redacted)
}

// redactAll returns redacted copies of lines.
func redactAll(lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, Redact(l))
	}
	return out
}

// RedactURL returns u without user information and with the values of its
// query hidden: signed URLs carry their credential there.
func RedactURL(u string) string {
	p, err := url.Parse(u)
	if err != nil {
		return "unparsable URL"
	}
	if p.User != nil {
		p.User = url.User("redacted")
	}
	if p.RawQuery != "" {
		p.RawQuery = "redacted"
	}
	return p.String()
}
