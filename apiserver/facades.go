package apiserver

import (
	"github.com/slipway-project/slipway/apiserver/pinger"
	"github.com/slipway-project/slipway/apiserver/provisioner"
	"github.com/slipway-project/slipway/apiserver/watch"
)

// row is a facade as the table declares it.
type row struct {
	name    string
	version int
	scope   scope // where it can be called
	who     who   // may call it
	objects bool  // whether requests name an object
	make    maker
}

// facades is the table of all facades, by name. Only what is there is listed in the
// answer to a login. Admin, which serves logins, is none of them.
func facades() []row {
	return []row{
		{name: "AllWatcher", version: 1, scope: onModel, who: readers, objects: true, make: stateless(watch.NewAllWatcher)},
		{name: "NotifyWatcher", version: 1, scope: onModel, who: agents, objects: true, make: stateless(watch.NewNotifyWatcher)},
		{name: "Pinger", version: 1, scope: onBoth, who: anyone, make: stateless(pinger.New)},
		{name: "Provisioner", version: 3, scope: onModel, who: agents, make: of(provisioner.New)},
		{name: "StringsWatcher", version: 1, scope: onModel, who: agents, objects: true, make: stateless(watch.NewStringsWatcher)},
	}
}
