// Package apiserver answers the API: TLS, websockets, login, and the table of
// facades that a connection may call.
//
// A connection starts with a root that knows nothing but Admin. A login replaces
// it with one that knows the facades of that connection's kind, of its model
// or of the whole site. A facade is made on its first use on a connection, and told
// who is on the other end; see facades.go for all of them and who may call
// them.
package apiserver
