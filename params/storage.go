package params

// StoragePool is a type of storage with settings, under a name.
type StoragePool struct {
	Name     string         `json:"name"`
	Provider string         `json:"provider"` // the type of storage
	Attrs    map[string]any `json:"attrs"`
}

// StoragePoolFilters say which storage pools are wanted, one list for each
// filter.
type StoragePoolFilters struct {
	Filters []StoragePoolFilter `json:"filters,omitempty"`
}

// StoragePoolFilter says which storage pools are wanted. What is empty excludes
// none.
type StoragePoolFilter struct {
	Names     []string `json:"names,omitempty"`
	Providers []string `json:"providers,omitempty"`
}

// StoragePoolsResults has a result for each filter.
type StoragePoolsResults struct {
	Results []StoragePoolsResult `json:"results,omitempty"`
}

// StoragePoolsResult are the storage pools that a filter lets pass.
type StoragePoolsResult struct {
	Result []StoragePool `json:"storage-pools,omitempty"`
	Error  *Error        `json:"error,omitempty"`
}

// StoragePoolDeleteArgs say which storage pools to remove.
type StoragePoolDeleteArgs struct {
	Pools []StoragePoolDeleteArg `json:"pools"`
}

// StoragePoolDeleteArg names a storage pool.
type StoragePoolDeleteArg struct {
	Name string `json:"name"`
}
