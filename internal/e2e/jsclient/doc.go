// Package jsclient has a client that others wrote, the JavaScript library jujulib, work
// with a real controller: log in, watch, add machines, read settings and ping,
// with certificates checked.
package jsclient
