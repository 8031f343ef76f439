package powerloss

import (
	"encoding/base64"
	"encoding/json"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/e2e/storecrash"
)

// Variable is the word of the kernel's command line that carries an Order. The
// kernel hands words that it does not know to the first process as its environment.
const Variable = "POWERLOSS"

// What the guest says on its console, each on a line of its own with a text behind
// it. Between Checked and the loss of power come the lines of storecrash.Write.
const (
	Checked = "checked " // the store is whole; the Mark of it as JSON
	Lost    = "lost "    // the check found something missing
	Broken  = "broken "  // anything else went wrong
)

// Order is what a guest has to do in one boot: to check the store, then to write.
type Order struct {
	Mark     storecrash.Mark    // of the check before
	Reports  storecrash.Reports // of the writers before the loss of power
	Unsynced bool               // to write with synchronous=OFF, which must lose batches
}

// Encode returns the order as one word.
func (o Order) Encode() (string, error) {
	b, err := json.Marshal(o)
	return base64.RawURLEncoding.EncodeToString(b), errors.Trace(err)
}

// Decode returns the order in a word.
func Decode(word string) (Order, error) {
	var o Order
	b, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil {
		return o, errors.NewNotValid(err, "order")
	}
	return o, errors.Trace(json.Unmarshal(b, &o))
}
