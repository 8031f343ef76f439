package redfish

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/juju/errors"
	"github.com/stmcginnis/gofish/common"
)

// reader lets gofish's data model read through a conn: with its limits, its
// session and a context. It only reads.
type reader struct {
	ctx  context.Context
	conn *conn
}

var _ common.Client = reader{}

// Get is described by common.Client.
func (r reader) Get(path string) (*http.Response, error) { return r.GetWithHeaders(path, nil) }

// GetWithHeaders is described by common.Client.
func (r reader) GetWithHeaders(path string, headers map[string]string) (*http.Response, error) {
	h := make(http.Header)
	for key, value := range headers {
		h.Set(key, value)
	}
	a, err := r.conn.do(r.ctx, http.MethodGet, path, nil, h)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// errReadOnly is the answer to all that would change something.
const errReadOnly = errors.ConstError("this client only reads")

// Post is described by common.Client.
func (reader) Post(string, any) (*http.Response, error) { return nil, errReadOnly }

// PostWithHeaders is described by common.Client.
func (reader) PostWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// PostMultipart is described by common.Client.
func (reader) PostMultipart(string, map[string]io.Reader) (*http.Response, error) {
	return nil, errReadOnly
}

// PostMultipartWithHeaders is described by common.Client.
func (reader) PostMultipartWithHeaders(string, map[string]io.Reader, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// Patch is described by common.Client.
func (reader) Patch(string, any) (*http.Response, error) { return nil, errReadOnly }

// PatchWithHeaders is described by common.Client.
func (reader) PatchWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// Put is described by common.Client.
func (reader) Put(string, any) (*http.Response, error) { return nil, errReadOnly }

// PutWithHeaders is described by common.Client.
func (reader) PutWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// Delete is described by common.Client.
func (reader) Delete(string) (*http.Response, error) { return nil, errReadOnly }

// DeleteWithHeaders is described by common.Client.
func (reader) DeleteWithHeaders(string, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}
