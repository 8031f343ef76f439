package apiserver

import (
	"reflect"
	"time"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Observer is told what clients do. Its methods are called by many goroutines,
// each of which goes on only when the method returns.
type Observer interface {
	// LoggedIn is told of every try to log in when it has ended.
	LoggedIn(Login)
	// Called is told of every call of a connection that is logged in when it
	// has ended.
	Called(Call)
}

// Origin says where something comes from.
type Origin struct {
	Who    string // the tag; for a login, as it was given, and empty if it is none
	Model  string // UUID; empty on connections to the site
	Remote string // the client's address, without port
}

// Login is a try to log in, over a connection or with one HTTP request.
type Login struct {
	Origin
	Purpose string        // what the client says it is for; may be empty
	At      time.Time     // when it began
	Took    time.Duration // until it was answered
	Code    string        // of the failure; CodeOther if it has none; empty for a success
}

// Call is a call of a facade's method. It holds nothing of its parameters and
// its result but what it was about.
type Call struct {
	Origin
	Facade   string
	Version  int
	Method   string
	At       time.Time     // when it began
	Took     time.Duration // until there was something to answer
	Code     string        // as for Login
	Writes   bool          // whether the method may change something
	Waits    bool          // whether the method waits for something to happen
	Entities []Entity      // of methods that write: what it was about
	More     int           // entities beyond the first maxEntities
}

// Entity is something that a call was about.
type Entity struct {
	Name string // a tag, an id or a name
	Code string // of the failure for this one, as for Login
}

// CodeOther stands for the code of a failure that has none.
const CodeOther = "error"

// outcome returns the code of an error, CodeOther if it has none, and "" for no
// error.
func outcome(err error) string {
	if err == nil {
		return ""
	}
	if code := params.CodeOf(err); code != "" {
		return code
	}
	return CodeOther
}

// maxName bounds the length of names that clients send, where they are noted.
const maxName = 200

// shorten returns a text of at most maxName bytes.
func shorten(text string) string { return text[:min(len(text), maxName)] }

// origin returns who is on the other end of a connection.
func (c *connection) origin(who tag.Tag) Origin {
	o := Origin{Remote: c.remote}
	if who != nil {
		o.Who = who.String()
	}
	if c.scope == onModel && c.state != nil {
		o.Model = c.state.ModelUUID()
	}
	return o
}

// observeLogin tells the observer of a login.
func (c *connection) observeLogin(q params.LoginRequest, began time.Time, err error) {
	o := c.server.cfg.Observer
	if o == nil {
		return
	}
	from := c.origin(nil)
	if _, err := tag.ParseTag(q.AuthTag); err == nil { // anything else may be a password in the wrong field
		from.Who = shorten(q.AuthTag)
	}
	o.LoggedIn(Login{Origin: from, Purpose: shorten(q.CLIArgs), At: began, Took: time.Since(began), Code: outcome(err)})
}

// observe tells the observer of a call, if there is one.
func (r *root) observe(q rpc.Request, e effect, began time.Time, about about, err error) {
	if r.observer == nil {
		return
	}
	c := Call{
		Origin: r.origin, Facade: q.Type, Version: q.Version, Method: q.Method,
		At: began, Took: time.Since(began), Code: outcome(err), Waits: e == waits,
	}
	if e == writes || e == unknown {
		c.Writes = true
		c.Entities, c.More = entitiesOf(about.args, about.result)
	}
	r.observer.Called(c)
}

// about are the parameters and the result of a call.
type about struct {
	args   reflect.Value // zero if there are none
	result any           // nil if there is none
}
