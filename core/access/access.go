// Package access names what a person may do, in one model and in the whole
// site. Each level includes the ones below it.
package access

import "github.com/juju/errors"

// Model is what a person may do in one model. The empty level is nothing.
type Model string

// The levels of access to a model.
const (
	Read  Model = "read"  // see it
	Write Model = "write" // change what is in it
	Admin Model = "admin" // say who may do what in it, and destroy it
)

// Controller is what a person may do in the whole site. The empty level is
// nothing.
type Controller string

// The levels of access to a site.
const (
	Login     Controller = "login"     // use the models that one has access to
	AddModel  Controller = "add-model" // make models
	Superuser Controller = "superuser" // everything, in every model too
)

func (m Model) rank() int {
	switch m {
	case Read:
		return 1
	case Write:
		return 2
	case Admin:
		return 3
	}
	return 0
}

// Includes reports whether who has m may do what needs n. Nothing includes an
// unknown level.
func (m Model) Includes(n Model) bool { return n.rank() > 0 && m.rank() >= n.rank() }

// ParseModel returns the level that text names, or an error satisfying
// errors.NotValid.
func ParseModel(text string) (Model, error) {
	if m := Model(text); m.rank() > 0 {
		return m, nil
	}
	return "", errors.NotValidf("model access %q (want read, write or admin)", text)
}

func (c Controller) rank() int {
	switch c {
	case Login:
		return 1
	case AddModel:
		return 2
	case Superuser:
		return 3
	}
	return 0
}

// Includes reports whether who has c may do what needs d. Nothing includes an
// unknown level.
func (c Controller) Includes(d Controller) bool { return d.rank() > 0 && c.rank() >= d.rank() }

// ParseController returns the level that text names, or an error satisfying
// errors.NotValid.
func ParseController(text string) (Controller, error) {
	if c := Controller(text); c.rank() > 0 {
		return c, nil
	}
	return "", errors.NotValidf("controller access %q (want login, add-model or superuser)", text)
}
