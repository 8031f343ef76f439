// What the server answers is given word by word, to show operations that have
// not ended yet: for that a test needs its own transport.

package rest

import "net/http"

// NewOver returns a client over a transport.
func NewOver(base string, t http.RoundTripper) *Client {
	return &Client{base: base, http: &http.Client{Transport: t}}
}
