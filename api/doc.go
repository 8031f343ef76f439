// Package api connects to the API server of a controller, logs in, and keeps the
// connection alive. What can be asked over a connection is in the packages
// below, one for each facade.
//
//	conn, err := api.Open(ctx, api.Info{Addrs: addrs, CACert: ca, ModelUUID: uuid, Tag: tag, Password: pw}, api.DialOptions{})
//	...
//	defer conn.Close()
//	lives, err := provisioner.New(conn).Life(ctx, "0", "1")
//
// A long-running worker uses a Reconnector, which opens a connection again
// whenever it breaks. Errors have the same kind on both sides of the wire: a
// caller tests errors.Is(err, errors.NotProvisioned) and never a text or a code.
package api
