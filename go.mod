module github.com/slipway-project/slipway

go 1.26.0

require github.com/juju/errors v1.0.0

require (
	github.com/kr/pretty v0.3.1 // indirect
	github.com/rogpeppe/go-internal v1.16.0 // indirect
)
