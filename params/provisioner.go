package params

import (
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/hardware"
)

// ConstraintsResult holds the constraints of one machine; {} beside an error.
type ConstraintsResult struct {
	Error       *Error            `json:"error,omitempty"`
	Constraints constraints.Value `json:"constraints"`
}

// ConstraintsResults are the results of Constraints.
type ConstraintsResults struct {
	Results []ConstraintsResult `json:"results"`
}

// DistributionGroupResult holds the instance ids of the machines that share a
// machine's distribution group: [] if there are none, null beside an error.
type DistributionGroupResult struct {
	Error  *Error   `json:"error,omitempty"`
	Result []string `json:"result"`
}

// DistributionGroupResults are the results of DistributionGroup.
type DistributionGroupResults struct {
	Results []DistributionGroupResult `json:"results"`
}

// ProvisioningInfo is what a provisioner must know to start a machine.
type ProvisioningInfo struct {
	Constraints      constraints.Value    `json:"constraints"`
	Series           string               `json:"series"`
	Placement        string               `json:"placement"` // may be empty
	Jobs             []string             `json:"jobs"`
	Volumes          []VolumeParams       `json:"volumes,omitempty"`
	Tags             map[string]string    `json:"tags,omitempty"` // to put on the instance
	SubnetsToZones   map[string][]string  `json:"subnets-to-zones,omitempty"`
	ImageMetadata    []CloudImageMetadata `json:"image-metadata,omitempty"`
	EndpointBindings map[string]string    `json:"endpoint-bindings,omitempty"`
	ControllerConfig map[string]any       `json:"controller-config,omitempty"`
}

// ProvisioningInfoResult holds the provisioning information of one machine;
// null beside an error.
type ProvisioningInfoResult struct {
	Error  *Error            `json:"error,omitempty"`
	Result *ProvisioningInfo `json:"result"`
}

// ProvisioningInfoResults are the results of ProvisioningInfo.
type ProvisioningInfoResults struct {
	Results []ProvisioningInfoResult `json:"results"`
}

// CloudImageMetadata describes an image that can be started.
type CloudImageMetadata struct {
	ImageID         string `json:"image-id"`
	Stream          string `json:"stream,omitempty"`
	Region          string `json:"region"`
	Version         string `json:"version"`
	Series          string `json:"series"`
	Arch            string `json:"arch"`
	VirtType        string `json:"virt-type,omitempty"`
	RootStorageType string `json:"root-storage-type,omitempty"`
	RootStorageSize uint64 `json:"root-storage-size,omitempty"`
	Source          string `json:"source"`
	Priority        int    `json:"priority"` // higher is better
}

// VolumeParams describes a volume to make with a machine.
type VolumeParams struct {
	VolumeTag  string                  `json:"volume-tag"`
	Size       uint64                  `json:"size"` // MiB
	Provider   string                  `json:"provider"`
	Attributes map[string]any          `json:"attributes,omitempty"`
	Tags       map[string]string       `json:"tags,omitempty"`
	Attachment *VolumeAttachmentParams `json:"attachment,omitempty"`
}

// VolumeAttachmentParams describes an attachment to make.
type VolumeAttachmentParams struct {
	VolumeTag  string `json:"volume-tag"`
	MachineTag string `json:"machine-tag"`
	VolumeID   string `json:"volume-id,omitempty"`
	InstanceID string `json:"instance-id,omitempty"`
	Provider   string `json:"provider"`
	ReadOnly   bool   `json:"read-only,omitempty"`
}

// Volume is a volume that was made.
type Volume struct {
	VolumeTag string     `json:"volume-tag"`
	Info      VolumeInfo `json:"info"`
}

// VolumeInfo describes a volume that was made.
type VolumeInfo struct {
	VolumeID   string `json:"volume-id"`
	HardwareID string `json:"hardware-id,omitempty"`
	Size       uint64 `json:"size"` // MiB
	Persistent bool   `json:"persistent"`
}

// VolumeAttachmentInfo describes an attachment that was made.
type VolumeAttachmentInfo struct {
	DeviceName string `json:"device-name,omitempty"`
	DeviceLink string `json:"device-link,omitempty"`
	BusAddress string `json:"bus-address,omitempty"`
	ReadOnly   bool   `json:"read-only,omitempty"`
}

// InstanceInfo records the instance that was started for a machine. Id and
// nonce are set once.
type InstanceInfo struct {
	Tag               string                          `json:"tag"`
	InstanceID        string                          `json:"instance-id"`
	Nonce             string                          `json:"nonce"`
	Characteristics   *hardware.Characteristics       `json:"characteristics"`
	Volumes           []Volume                        `json:"volumes"`
	VolumeAttachments map[string]VolumeAttachmentInfo `json:"volume-attachments"` // by volume tag
	NetworkConfig     []NetworkConfig                 `json:"network-config"`
}

// InstancesInfo are the parameters of SetInstanceInfo.
type InstancesInfo struct {
	Machines []InstanceInfo `json:"machines"`
}

// MachineContainers says which types of container a machine can host; none
// means that it can host none.
type MachineContainers struct {
	MachineTag     string   `json:"machine-tag"`
	ContainerTypes []string `json:"container-types"`
}

// MachineContainersParams are the parameters of SetSupportedContainers.
type MachineContainersParams struct {
	Params []MachineContainers `json:"params"`
}

// WatchContainer names a machine and the type of its containers to watch; an
// empty type means all.
type WatchContainer struct {
	MachineTag    string `json:"machine-tag"`
	ContainerType string `json:"container-type"`
}

// WatchContainers are the parameters of WatchContainers and WatchAllContainers.
type WatchContainers struct {
	Params []WatchContainer `json:"params"`
}

// ContainerManagerConfigParams are the parameters of ContainerManagerConfig.
type ContainerManagerConfigParams struct {
	Type string `json:"type"` // a container type
}

// ContainerManagerConfig is the result of ContainerManagerConfig.
type ContainerManagerConfig struct {
	ManagerConfig map[string]string `json:"config"`
}

// ProxySettings are proxies as URLs. Its keys are capitalised in the protocol.
type ProxySettings struct {
	HTTP    string `json:"Http"`
	HTTPS   string `json:"Https"`
	FTP     string `json:"Ftp"`
	NoProxy string `json:"NoProxy"` // comma separated
}

// UpdateBehavior says what a container does to its packages when it starts. Its
// keys stand among those of ContainerConfig.
type UpdateBehavior struct {
	EnableOSRefreshUpdate bool `json:"enable-os-refresh-update"`
	EnableOSUpgrade       bool `json:"enable-os-upgrade"`
}

// ContainerConfig is the result of ContainerConfig: what of the model's config
// a container's first boot needs.
type ContainerConfig struct {
	ProviderType            string        `json:"provider-type"`
	AuthorizedKeys          string        `json:"authorized-keys"`
	SSLHostnameVerification bool          `json:"ssl-hostname-verification"`
	Proxy                   ProxySettings `json:"proxy"`
	AptProxy                ProxySettings `json:"apt-proxy"`
	AptMirror               string        `json:"apt-mirror"`
	UpdateBehavior
}
