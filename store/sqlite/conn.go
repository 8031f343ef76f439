package sqlite

import (
	"context"
	"database/sql"
	stderrors "errors"

	"github.com/juju/errors"
)

// conn is a connection of its own with statements that live as long.
type conn struct {
	*sql.Conn
	statements []*sql.Stmt
}

// statement says where to put a prepared statement.
type statement struct {
	to    **sql.Stmt
	query string
}

// connect takes a connection of db. The caller closes it.
func connect(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return &conn{Conn: c}, nil
}

// prepare prepares statements.
func (c *conn) prepare(ctx context.Context, statements []statement) error {
	for _, s := range statements {
		prepared, err := c.PrepareContext(ctx, s.query)
		if err != nil {
			return errors.Trace(err)
		}
		c.statements = append(c.statements, prepared)
		*s.to = prepared
	}
	return nil
}

// Close closes the statements and gives the connection back. SQLite keeps a
// connection open, and its files with it, until its last statement is closed.
func (c *conn) Close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return stderrors.Join(append(errs, c.Conn.Close())...)
}
