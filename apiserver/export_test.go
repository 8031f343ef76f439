package apiserver

// Stopped reports whether a block of changes stops people from calling a method.
// Tests from outside walk the tables with it.
func Stopped(facade, method string) bool {
	return effectsOf(effects(), facade)[method] == writes && despite()[facade+"."+method] == ""
}
