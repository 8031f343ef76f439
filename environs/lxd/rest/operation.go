package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/juju/errors"
)

// waitSeconds is how long one call waits for an operation's end: what LXD says
// of its progress is asked for that often.
const waitSeconds = 2

// stallTimeout is how long an operation may go on without any news of it. It is
// longer than anything that LXD does in silence, such as to copy a large image.
const stallTimeout = 10 * time.Minute

// operation is something that LXD does in the background.
type operation struct {
	Status   string         `json:"status"` // Pending, Running, Success, Failure and so on
	Err      string         `json:"err"`
	Metadata map[string]any `json:"metadata"`
}

// operate makes a call that begins an operation, and waits for its end.
func (c *Client) operate(ctx context.Context, method, path string, body any, progress func(string)) error {
	a, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if a.Operation == "" {
		return nil // done at once
	}
	return c.wait(ctx, a.Operation, progress)
}

// wait returns when an operation has ended, or there has been no news of it for
// too long: then with an error satisfying ErrUnreachable.
func (c *Client) wait(ctx context.Context, path string, progress func(string)) error {
	heard := time.Now()
	for last := ""; ; {
		a, err := c.call(ctx, request{
			method: http.MethodGet, path: path + "/wait", query: url.Values{"timeout": {fmt.Sprint(waitSeconds)}},
			timeout: waitSeconds*time.Second + callTimeout,
		})
		if errors.Is(err, errors.NotFound) {
			return errors.Trace(ErrLost)
		}
		if err != nil {
			return err
		}
		var op operation
		if err := json.Unmarshal(a.Metadata, &op); err != nil {
			return errors.Annotate(err, "cannot understand LXD")
		}
		switch op.Status {
		case "Success":
			return nil
		case "Failure", "Cancelled":
			return failure(op)
		}
		if text := op.progress(); text != "" && text != last {
			last, heard = text, time.Now()
			if progress != nil {
				progress(text)
			}
		}
		if silent := time.Since(heard); silent > stallTimeout {
			return unreachable(errors.Errorf("no end and no progress of an operation for %v", silent.Round(time.Second)))
		}
	}
}

// progress returns what LXD says of an operation under way; empty for nothing.
// Its keys end in _progress: download_progress, create_instance_from_image_unpack_progress.
func (o operation) progress() string {
	for key, value := range o.Metadata {
		if text, ok := value.(string); ok && strings.HasSuffix(key, "_progress") {
			return text
		}
	}
	return ""
}

// failure is the error for an operation that failed. LXD has only a text for
// why, so the one reason that callers care about is read from that.
func failure(op operation) error {
	if op.Err == "" {
		op.Err = op.Status
	}
	if strings.Contains(op.Err, "already exists") {
		return errors.WithType(errors.New(op.Err), errors.AlreadyExists)
	}
	return errors.WithType(errors.New(op.Err), ErrFailed)
}
