// Package rest speaks to one LXD daemon: the part of LXD's REST API that
// starting and stopping system containers needs, and nothing else of it.
//
// What takes a while is an operation in LXD. The methods of Client that begin
// one return when it has ended. If their context ends first the operation goes
// on; what came of it can be read later.
//
// The names of JSON keys, headers and error codes are those of LXD's "REST API"
// and "Main API specification" documents, version 1.0.
package rest
