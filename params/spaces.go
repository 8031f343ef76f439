package params

// Subnet describes a subnet.
type Subnet struct {
	CIDR       string   `json:"cidr"`
	ProviderID string   `json:"provider-id,omitempty"`
	VLANTag    int      `json:"vlan-tag"`
	Life       string   `json:"life"`
	SpaceTag   string   `json:"space-tag"`
	Zones      []string `json:"zones"`
	Status     string   `json:"status,omitempty"`

	// The first and the last address that may be given to containers.
	Low  string `json:"allocatable-ip-low,omitempty"`
	High string `json:"allocatable-ip-high,omitempty"`
}

// AddSubnet describes a subnet to add.
type AddSubnet struct {
	SubnetTag        string   `json:"subnet-tag,omitempty"` // subnet-CIDR
	SubnetProviderID string   `json:"subnet-provider-id,omitempty"`
	SpaceTag         string   `json:"space-tag"`
	VLANTag          int      `json:"vlan-tag,omitempty"`
	Zones            []string `json:"zones,omitempty"`

	Low  string `json:"allocatable-ip-low,omitempty"`
	High string `json:"allocatable-ip-high,omitempty"`
}

// AddSubnets are the parameters of Subnets.AddSubnets.
type AddSubnets struct {
	Subnets []AddSubnet `json:"subnets"`
}

// SubnetsFilters are the parameters of Subnets.ListSubnets. What is empty means
// any.
type SubnetsFilters struct {
	SpaceTag string `json:"space-tag,omitempty"`
	Zone     string `json:"zone,omitempty"`
}

// ListSubnetsResults is the result of Subnets.ListSubnets.
type ListSubnetsResults struct {
	Results []Subnet `json:"results"`
}

// CreateSpace describes a space to add, with subnets that are there already.
type CreateSpace struct {
	SubnetTags []string `json:"subnet-tags"`
	SpaceTag   string   `json:"space-tag"`
	Public     bool     `json:"public"`
	ProviderID string   `json:"provider-id,omitempty"`
}

// CreateSpaces are the parameters of Spaces.CreateSpaces.
type CreateSpaces struct {
	Spaces []CreateSpace `json:"spaces"`
}

// Space describes a space.
type Space struct {
	Name    string   `json:"name"`
	Subnets []Subnet `json:"subnets"`
	Error   *Error   `json:"error,omitempty"`
}

// ListSpacesResults is the result of Spaces.ListSpaces.
type ListSpacesResults struct {
	Results []Space `json:"results"`
}
