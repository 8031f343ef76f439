package state

import (
	"context"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// userDoc is a user as it is stored.
type userDoc struct {
	Name         string            `json:"name"` // as it was given; the id is in lower case
	DisplayName  string            `json:"display-name,omitempty"`
	CreatedBy    string            `json:"created-by,omitempty"`
	Created      time.Time         `json:"created"`
	PasswordHash string            `json:"password-hash,omitempty"`
	Disabled     bool              `json:"disabled,omitempty"`
	Access       access.Controller `json:"access,omitempty"`
}

// loginDoc says when a user last logged in to something.
type loginDoc struct {
	At time.Time `json:"at"`
}

// Users is the handle on the people who may log in.
type Users struct{ c *Controller }

// UserSpec says what user to add.
type UserSpec struct {
	Name        string
	DisplayName string
	Password    string // empty means that the user cannot log in until SetPassword
	CreatedBy   string
	Access      access.Controller // empty means login
}

// userID returns the id of the user with this name. Names that differ in case or
// in an explicit local domain only are the same.
func userID(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "@local"))
}

// Add adds a user. It returns an error satisfying errors.AlreadyExists if there is
// one of this name, and errors.NotValid for a bad name or access.
func (us *Users) Add(ctx context.Context, spec UserSpec) (*User, error) {
	u, err := us.add(ctx, spec)
	return u, errors.Annotatef(err, "cannot add user %q", spec.Name)
}

func (us *Users) add(ctx context.Context, spec UserSpec) (*User, error) {
	op, err := us.c.userOp(ctx, spec)
	if err != nil {
		return nil, errors.Trace(err)
	}
	err = us.c.store.Apply(ctx, []store.Op{op})
	if errors.Is(err, store.ErrConflict) {
		return nil, errors.AlreadyExistsf("user %q", spec.Name)
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	return us.Get(ctx, spec.Name)
}

// userOp returns the operation that inserts a user.
func (c *Controller) userOp(ctx context.Context, spec UserSpec) (store.Op, error) {
	if !tag.IsValidUserName(strings.TrimSuffix(spec.Name, "@local")) {
		return store.Op{}, errors.NotValidf("user name %q", spec.Name)
	}
	if spec.Access == "" {
		spec.Access = access.Login
	}
	if _, err := access.ParseController(string(spec.Access)); err != nil {
		return store.Op{}, err
	}
	d := userDoc{Name: strings.TrimSuffix(spec.Name, "@local"), DisplayName: spec.DisplayName,
		CreatedBy: spec.CreatedBy, Created: c.now(), Access: spec.Access}
	if spec.Password != "" {
		var err error
		if d.PasswordHash, err = c.hashPassword(ctx, spec.Password); err != nil {
			return store.Op{}, errors.Trace(err)
		}
	}
	return insertOp(siteKey(usersC, userID(spec.Name)), d, nil)
}

// Get returns a user, or an error satisfying errors.NotFound and
// errors.UserNotFound.
func (us *Users) Get(ctx context.Context, name string) (*User, error) {
	d, err := us.c.store.Get(ctx, siteKey(usersC, userID(name)))
	if errors.Is(err, errors.NotFound) {
		return nil, errors.WithType(errors.NotFoundf("user %q", name), errors.UserNotFound)
	}
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get user %q", name)
	}
	return us.decode(d)
}

func (us *Users) decode(d store.Doc) (*User, error) {
	doc, err := decode[userDoc](d)
	if err != nil {
		return nil, errors.Trace(err)
	}
	_, id := splitID(d.ID)
	return &User{c: us.c, id: id, rev: d.Rev, doc: doc}, nil
}

// All returns every user, disabled ones too, by name.
func (us *Users) All(ctx context.Context) ([]*User, error) {
	var found []*User
	err := eachDoc(ctx, us.c.store, store.Query{Collection: usersC}, func(d store.Doc) error {
		u, err := us.decode(d)
		found = append(found, u)
		return err
	})
	return found, errors.Annotate(err, "cannot list users")
}

// Watch returns a watcher that fires when any user is added or changed.
func (us *Users) Watch() watcher.NotifyWatcher { return us.c.hub.watchTopic(topic{whole: usersC}) }

// Authenticate returns the user with this name if the password is right. An
// unknown user, a wrong password and a disabled user all give the same error,
// which satisfies ErrBadCredentials, after the same work. At most two passwords
// are hashed at once; others wait their turn, or until ctx is done.
func (us *Users) Authenticate(ctx context.Context, name, password string) (*User, error) {
	u, err := us.Get(ctx, name)
	if err != nil && !errors.Is(err, errors.NotFound) {
		return nil, errors.Trace(err)
	}
	hash := ""
	if err == nil {
		hash = u.doc.PasswordHash
	}
	ok, err := us.c.checkPassword(ctx, hash, password)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot check password of user %q", name)
	}
	if !ok || u == nil || u.doc.Disabled {
		return nil, ErrBadCredentials
	}
	u.proved = func() string { return password }
	return u, nil
}

// User is a user as it was when it was read.
type User struct {
	c   *Controller
	id  string
	rev store.Rev
	doc *userDoc

	proved func() string // the password that it was authenticated with; nil if it was not
}

// Name returns the user's name.
func (u *User) Name() string { return u.doc.Name }

// Tag returns the user's tag.
func (u *User) Tag() tag.Tag {
	t, err := tag.NewUserTag(u.id)
	if err != nil {
		return tag.UserTag{} // not reached: a name is checked when the user is added
	}
	return t
}

// DisplayName returns the name that people know the user by; may be empty.
func (u *User) DisplayName() string { return u.doc.DisplayName }

// CreatedBy returns the name of the user who added this one; empty for the
// first.
func (u *User) CreatedBy() string { return u.doc.CreatedBy }

// Created returns when the user was added.
func (u *User) Created() time.Time { return u.doc.Created }

// IsDisabled reports whether the user may not log in at present.
func (u *User) IsDisabled() bool { return u.doc.Disabled }

// Access returns what the user may do with the site.
func (u *User) Access() access.Controller { return u.doc.Access }

// SetPassword sets the user's password; the one before ends with it.
func (u *User) SetPassword(ctx context.Context, password string) error {
	if password == "" {
		return errors.NotValidf("empty password")
	}
	hash, err := u.c.hashPassword(ctx, password)
	if err == nil {
		err = u.update(ctx, func(d *userDoc) { d.PasswordHash = hash })
	}
	return errors.Annotatef(err, "cannot set password of user %q", u.Name())
}

// Disable keeps the user from logging in, and from every model, until Enable.
// Connections that are open already are the caller's to end.
func (u *User) Disable(ctx context.Context) error {
	err := u.update(ctx, func(d *userDoc) { d.Disabled = true })
	return errors.Annotatef(err, "cannot disable user %q", u.Name())
}

// Enable lets the user log in again.
func (u *User) Enable(ctx context.Context) error {
	err := u.update(ctx, func(d *userDoc) { d.Disabled = false })
	return errors.Annotatef(err, "cannot enable user %q", u.Name())
}

// SetAccess sets what the user may do with the site; empty means nothing.
func (u *User) SetAccess(ctx context.Context, level access.Controller) error {
	if level != "" && !level.Includes(access.Login) {
		return errors.NotValidf("controller access %q", level)
	}
	err := u.update(ctx, func(d *userDoc) { d.Access = level })
	return errors.Annotatef(err, "cannot set access of user %q", u.Name())
}

// update applies a change to the user's document.
func (u *User) update(ctx context.Context, change func(*userDoc)) error {
	return u.c.run(ctx, func(int) ([]store.Op, error) {
		fresh, err := u.c.Users().Get(ctx, u.id)
		if err != nil {
			return nil, err
		}
		d := *fresh.doc
		change(&d)
		op, err := writeOp(siteKey(usersC, u.id), fresh.rev, d, nil)
		return []store.Op{op}, err
	})
}

// RecordLogin records that the user has logged in to the site at a time.
func (u *User) RecordLogin(ctx context.Context, at time.Time) error {
	return u.c.recordLogin(ctx, siteKey(loginsC, u.id), at)
}

// LastLogin returns when the user last logged in to the site; zero means never.
func (u *User) LastLogin(ctx context.Context) (time.Time, error) {
	d, err := u.c.store.Get(ctx, siteKey(loginsC, u.id))
	if errors.Is(err, errors.NotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, errors.Annotatef(err, "cannot get last login of user %q", u.Name())
	}
	l, err := decode[loginDoc](d)
	if err != nil {
		return time.Time{}, errors.Trace(err)
	}
	return l.At, nil
}

// recordLogin writes the time of a login. An earlier time than the one there
// is left out.
func (c *Controller) recordLogin(ctx context.Context, key store.Key, at time.Time) error {
	err := c.run(ctx, func(int) ([]store.Op, error) {
		docs, err := c.store.GetAll(ctx, []store.Key{key})
		if err != nil {
			return nil, err
		}
		if docs[0].Rev != 0 {
			l, err := decode[loginDoc](docs[0])
			if err != nil || !at.After(l.At) {
				return nil, err
			}
		}
		op, err := writeOp(key, docs[0].Rev, loginDoc{At: at.UTC().Round(0)}, nil)
		return []store.Op{op}, err
	})
	return errors.Annotate(err, "cannot record login")
}
