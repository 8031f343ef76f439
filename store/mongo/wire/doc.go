// Package wire lets a driver that speaks only MongoDB's legacy wire operations
// talk to servers that speak only OP_MSG.
//
// gopkg.in/mgo.v2 sends OP_QUERY, OP_GET_MORE and OP_KILL_CURSORS, which
// MongoDB 5.1 removed. A Dialer opens connections for it: it shakes hands with
// the server, and returns a net.Conn that turns each legacy operation into a
// command in an OP_MSG and each answer back into an OP_REPLY. TLS lies below
// the translation; authentication passes through it.
//
//	mgo  --OP_QUERY-->  conn  --OP_MSG-->  TLS  -->  server
//	mgo  <--OP_REPLY--  conn  <--OP_MSG--  TLS  <--  server
//
// The message formats are those of the "MongoDB Wire Protocol" page of
// MongoDB's manual. The package also holds the codec that the test double's
// server side uses.
package wire
