package state

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
)

// TicketLife is how long a ticket spares the hashing of a password.
const TicketLife = 30 * 24 * time.Hour

// maxTicketSkew is how far the clocks of two controllers may be apart.
const maxTicketSkew = 5 * time.Minute

// ticketPurpose keeps tickets apart from all else that the site's keys vouch for.
const ticketPurpose = "password was checked"

// Ticket returns what spares controllers of this site the hashing of the password
// that u has just been authenticated with, for TicketLife: it says that it was found
// to be the user's. Together with the password it is worth what the password is,
// and without it nothing. It is empty for a user who was not authenticated,
// and if the controllers have no key in common.
func (u *User) Ticket() (string, error) {
	if u.proved == nil || u.c.hostKeys.Load() == nil {
		return "", nil
	}
	issued := u.c.now().Unix()
	text, err := u.c.hostKeys.Load().Vouch(ticketPurpose, u.ticketMessage(u.proved(), issued))
	return strconv.FormatInt(issued, 36) + ":" + text, errors.Annotatef(err, "cannot make a ticket for user %q", u.Name())
}

// vouchedFor reports whether a ticket says that the password has been found to be
// the user's. What the ticket says is believed only when its key has proved it.
func (u *User) vouchedFor(password, ticket string) (bool, error) {
	when, text, _ := strings.Cut(ticket, ":")
	issued, err := strconv.ParseInt(when, 36, 64)
	if err != nil || u.c.hostKeys.Load() == nil || u.doc.PasswordHash == "" || len(password) > maxPasswordBytes {
		return false, nil
	}
	ok, err := u.c.hostKeys.Load().Vouched(ticketPurpose, u.ticketMessage(password, issued), text)
	if err != nil || !ok {
		return false, errors.Trace(err)
	}
	age := u.c.now().Sub(time.Unix(issued, 0))
	return age >= -maxTicketSkew && age < TicketLife, nil
}

// ticketMessage is what a ticket vouches for. The stored hash, whose salt is new
// with each password, ends all tickets of the password before. Each field goes
// with its length, so that no two meanings have the same bytes.
func (u *User) ticketMessage(password string, issued int64) []byte {
	var b []byte
	for _, field := range []string{u.c.ControllerUUID(), u.id, u.doc.PasswordHash, password} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	return binary.BigEndian.AppendUint64(b, uint64(issued))
}

// AuthenticateAgain is Authenticate for somebody who shows a ticket of an earlier
// login beside the password. If the ticket vouches for the password no hash is
// computed; any other ticket counts for nothing.
func (us *Users) AuthenticateAgain(ctx context.Context, name, password, ticket string) (*User, error) {
	if ticket == "" {
		return us.Authenticate(ctx, name, password)
	}
	u, err := us.Get(ctx, name)
	if err != nil && !errors.Is(err, errors.NotFound) {
		return nil, errors.Trace(err)
	}
	if err == nil && !u.doc.Disabled {
		ok, err := u.vouchedFor(password, ticket)
		if err != nil {
			return nil, errors.Annotatef(err, "cannot check ticket of user %q", name)
		}
		if ok {
			u.proved = func() string { return password }
			return u, nil
		}
	}
	return us.Authenticate(ctx, name, password)
}
